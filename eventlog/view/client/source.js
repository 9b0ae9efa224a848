// The only module that asks for data. A shared page has another one, with answers that were recorded.

import {isGiven, remember, remembered} from './words.js';

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
  const response = await request(name, parameters, signal);
  let value = null;
  try {
    value = await response.json();
  } catch (failure) {
    if (failure.name === 'AbortError') throw failure;
  }
  if (!response.ok || !value || value.error) throw refusal(value && value.error, response.status);
  return value;
}

/** The response to `/api/NAME`, whatever its status. Raises as `ask`. */
export async function request(name, parameters, signal) {
  const given = Object.entries({...parameters, store: state.store}).filter(([, v]) => isGiven(v));
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
  const {what, next} = {what: 'The viewer answered with status ' + status + '.', next: null, ...error};
  return Object.assign(new Error(what), {
    what, status, next: next || (status === 401 ? 'Run `locus view` again: its key is new each time.' : null),
  });
}
