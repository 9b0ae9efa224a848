// Stands for `source.js` in a page of one file: the answers were recorded when it was made.

import {isGiven} from './words.js';

const recorded = {answers: null, start: '/', sections: null};

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
  const given = Object.entries(parameters || {}).filter(([, v]) => isGiven(v));
  const names = recorded.ignored[name.split('/')[0]] || [];
  if (name === 'sessions') return chosenSessions(Object.fromEntries(given));
  const kept = given.filter(([key]) => !names.includes(key)).map(([key, value]) => [key, String(value)]);
  const value = recorded.answers[JSON.stringify([name, kept.sort()])];
  return value ? structuredClone(value) : absent();
}

/** Raises that something is not here; also where a page would be loaded that no file has. */
export async function absent() {
  throw Object.assign(new Error('not in this page'), {what: 'This is not in this page.', next: recorded.next, status: 404});
}

/** The recorded sessions that fit, as the server chooses them. */
function chosenSessions(wanted) {
  const answer = recorded.answers[JSON.stringify(['sessions', []])];
  const words = (wanted.q || '').toLowerCase().split(/\s+/).filter(Boolean);
  const has = (s, name, value) => (Array.isArray(s[name]) ? s[name].includes(value) : s[name] === value);
  const fits = (s) => (!wanted.session || s.session_id === wanted.session) && (!wanted.state || s.status === wanted.state) &&
    ['agent', 'branch', 'person'].every((name) => !wanted[name] || has(s, name, wanted[name])) &&
    (!wanted.model || has(s, 'models', wanted.model)) && (!wanted.day || has(s, 'days', wanted.day)) &&
    words.every((word) => `${s.title} ${s.session_id}`.toLowerCase().includes(word));
  const fitting = answer.sessions.filter(fits);
  const first = wanted.before ? fitting.findIndex((s) => s.session_id === wanted.before) + 1 : 0;
  const last = first + Number(wanted.limit || fitting.length);
  return {...answer, sessions: fitting.slice(first, last), more: last < fitting.length};
}

/** The names of the places that this page has. */
export function recordedPlaces() {
  return recorded.sections;
}
