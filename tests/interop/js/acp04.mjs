// ACP 1 with the SDK's old package, of October 2025: it knows neither lists of sessions nor options.
// (Its `setSessionModel` sends `session/set_mode`.)
import { ClientSideConnection, ndJsonStream, RequestError } from '@zed-industries/agent-client-protocol';

// It tells of each update of a kind that it doesn't know: options, titles.
if (!process.env.VERBOSE) console.error = () => {};

export function connect(output, input, editor) {
  const client = {
    requestPermission: (params) => editor.permit(params),
    sessionUpdate: (params) => editor.update(params),
    readTextFile: async (params) => {
      const file = editor.read(params);
      if (file) return file;
      throw RequestError.resourceNotFound(params.path);
    },
    writeTextFile: async (params) => editor.write(params),
  };
  const agent = new ClientSideConnection(() => client, ndJsonStream(output, input));
  return {
    initialize: (params) => agent.initialize(params),
    newSession: (params) => agent.newSession(params),
    loadSession: (params) => agent.loadSession(params),
    prompt: (params) => agent.prompt(params),
    setMode: (params) => agent.setSessionMode(params),
    cancel: (params) => agent.cancel(params),
  };
}
