// ACP 1 with the newest SDK: the methods that acp.mjs calls, each by the protocol's name.
import { client, methods, ndJsonStream, RequestError } from '@agentclientprotocol/sdk';

export function connect(output, input, editor) {
  const found = (params, file) => {
    if (file) return file;
    throw RequestError.resourceNotFound(params.path);
  };
  // The SDK asks one handler after the other: updates first, or the answer to the prompt overtakes them.
  const { agent } = client({ name: 'interop' })
    .onRequest(methods.client.session.requestPermission, ({ params }) => editor.permit(params))
    .onNotification(methods.client.session.update, ({ params }) => editor.update(params))
    .onRequest(methods.client.fs.readTextFile, ({ params }) => found(params, editor.read(params)))
    .onRequest(methods.client.fs.writeTextFile, ({ params }) => editor.write(params))
    .connect(ndJsonStream(output, input));
  const { initialize, session } = methods.agent;
  const request = (method) => (params) => agent.request(method, params);
  return {
    initialize: request(initialize),
    newSession: request(session.new),
    loadSession: request(session.load),
    listSessions: request(session.list),
    prompt: request(session.prompt),
    setMode: request(session.setMode),
    setOption: request(session.setConfigOption),
    cancel: (params) => agent.notify(session.cancel, params),
  };
}
