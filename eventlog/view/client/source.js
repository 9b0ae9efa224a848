// The only module that asks for data. A shared page has another one, with answers that were recorded.

import {remember, remembered} from './words.js';

const state = {token: '', store: ''};

/** Whether answers were recorded in advance: then there is nothing to type a question for. */
export const isRecorded = false;

/** The names of the places that a recorded page has; null for all. */
export function recordedPlaces() {
  return null;
}

/** Takes the token out of the address before anything else happens. */
export async function takeToken() {
  const match = /^#t=([A-Za-z0-9_-]+)$/.exec(location.hash);
  if (match) {
    remember('token', match[1]);
    history.replaceState(null, '', location.pathname + location.search);
  }
  state.token = match ? match[1] : remembered('token') || '';
}

/** The store that questions are about; empty where there is one. */
export function chooseStore(name) {
  state.store = name;
}

/** The answer to `/api/NAME`. Raises an Error with `what`, `next`, `status`; AbortError when `signal` says so. */
export async function ask(name, parameters, signal) {
  const response = await get(name, parameters, signal);
  let value = null;
  try {
    value = await response.json();
  } catch (failure) {
    if (failure.name === 'AbortError') throw failure;
  }
  if (!response.ok || !value || value.error) throw refusal(value && value.error, response.status);
  return value;
}

/** Calls `heard` with each live event after the position `after`; gives a function that ends it. */
export function follow(after, heard) {
  const ending = new AbortController();
  stayConnected(after, heard, ending.signal);
  return () => ending.abort();
}

async function get(name, parameters, signal) {
  const given = Object.entries(parameters || {}).filter(([, v]) => v !== null && v !== undefined && v !== '');
  if (state.store) given.push(['store', state.store]);
  const query = new URLSearchParams(given).toString();
  try {
    return await fetch('/api/' + name + (query ? '?' + query : ''), {
      headers: {Authorization: 'Bearer ' + state.token}, signal, credentials: 'omit', redirect: 'error',
    });
  } catch (failure) {
    if (failure.name === 'AbortError') throw failure;
    throw refusal({what: 'The viewer does not answer.', next: 'Is `locus view` still running?'}, 0);
  }
}

function refusal(error, status) {
  const what = error && error.what ? error.what : 'The viewer answered with status ' + status + '.';
  const next = error && error.next ? error.next : status === 401 ? 'Run `locus view` again: its key is new each time.' : null;
  return Object.assign(new Error(what), {what, next, status});
}

async function stayConnected(after, heard, signal) {
  let position = after;
  for (let wait = 500; !signal.aborted; wait = Math.min(wait * 2, 15000)) {
    try {
      const response = await get('live', {after: position}, signal);
      if (response.status === 401 || response.status === 404) return;
      if (response.ok) {
        await readEvents(response.body.getReader(), (event) => {
          wait = 500;
          if (Number.isInteger(event.position)) position = event.position;
          heard(event);
        });
      }
    } catch (failure) {
      if (signal.aborted) return;
    }
    await new Promise((go) => setTimeout(go, wait));
  }
}

async function readEvents(reader, heard) {
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    rest += decoder.decode(value, {stream: true});
    const pieces = rest.split(/\r?\n\r?\n/);
    rest = pieces.pop();
    for (const piece of pieces) {
      const data = piece.split(/\r?\n/).filter((l) => l.startsWith('data:')).map((l) => l.slice(5).trimStart());
      if (data.length) heard(JSON.parse(data.join('\n')));
    }
  }
}
