// What programs read out of the events of an SDK, which their first argument names: sdk03 or sdk10.
import { URI, must, same, workspace } from './check.mjs';

export const { connect, version } = await import(`./${process.argv[2]}.mjs`);
const settings = { [URI]: { workspace_path: workspace } };

export const prompt = (text, more) => ({ parts: [{ text }], metadata: settings, ...more });

// A stream read to its end; `seen` is told each event.
export async function read(stream, seen) {
  const events = [];
  for await (const event of stream) {
    events.push(event);
    await seen?.(event, events);
  }
  must(events.length > 0, 'the stream was empty');
  return events;
}

export const updates = (events) => events.filter((event) => event.type === 'status-update');
export const kinds = (event) => event.metadata[URI]?.kind;
export const texts = (events) =>
  updates(events)
    .filter((event) => kinds(event) === 'TEXT_CONTENT' && event.role === 'agent')
    .flatMap((event) => event.parts.map((part) => part.text ?? ''))
    .join('');
export const calls = (events) =>
  updates(events)
    .filter((event) => kinds(event) === 'TOOL_CALL_UPDATE')
    .flatMap((event) => event.parts.map((part) => part.data));
export const last = (list) => list[list.length - 1];

export function ends(events, state) {
  same(last(updates(events)).state, state, 'the last state');
  if (version === '0.3') {
    same(updates(events).filter((event) => event.final).length, 1, 'how many are final');
    same(last(events).final, true, 'final of the last');
  }
}
