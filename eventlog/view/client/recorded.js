// Stands for `source.js` in a page of one file: the answers were recorded when it was made.

const recorded = {answers: null, start: '/', places: null};

/** Whether answers were recorded in advance: then there is nothing to type a question for. */
export const isRecorded = true;

/** Reads the answers, and goes to where the page begins. */
export async function takeToken() {
  const packed = atob(document.getElementById('recorded').textContent.trim());
  const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  Object.assign(recorded, await new Response(stream).json());
  if (location.hash.length < 2) history.replaceState(null, '', '#' + recorded.start);
}

export function chooseStore() {}

/** The recorded answer to `/api/NAME`. Raises an Error with `what`, `next`, `status` where there is none. */
export async function ask(name, parameters) {
  const given = Object.entries(parameters || {}).filter(([, v]) => v !== null && v !== undefined && v !== '');
  const names = recorded.ignored[name.split('/')[0]] || [];
  const kept = given.filter(([key]) => !names.includes(key)).map(([key, value]) => [key, String(value)]);
  const value = recorded.answers[JSON.stringify([name, kept.sort()])];
  if (value) return structuredClone(value);
  throw Object.assign(new Error('not in this page'), {what: 'This is not in this page.', next: recorded.next, status: 404});
}

export function follow() {
  return () => {};
}

/** The names of the places that this page has. */
export function recordedPlaces() {
  return recorded.places;
}
