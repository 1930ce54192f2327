// ACP 1 with the newest SDK: the methods that acp.mjs calls, each by the protocol's name.
import { client, methods, ndJsonStream } from '@agentclientprotocol/sdk';

export function connect(output, input, editor) {
  const { agent } = client({ name: 'interop' })
    .onRequest(methods.client.session.requestPermission, ({ params }) => editor.permit(params))
    .onNotification(methods.client.session.update, ({ params }) => editor.update(params))
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
