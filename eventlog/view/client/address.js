// Addresses of pages: what the bar of the browser says, and links to other places.

import {isRecorded} from './source.js';
import {isGiven} from './words.js';

const links = {prefix: '', toPage: (parts, query) => [parts, query]};

/** `{parts, query, store}` of the address that is shown; `parts` without the store. */
export function readAddress() {
  const shown = isRecorded ? location.hash.slice(1) : location.pathname + location.search;
  const url = new URL('http://x' + (shown.startsWith('/') ? shown : '/'));
  const parts = url.pathname.split('/').filter(Boolean).map(decoded);
  const [, store = ''] = parts[0] === 'store' ? parts.splice(0, 2) : [];
  return {parts, query: url.searchParams, store};
}

/** All links begin with this store from now on, empty where there is one; those of a lake lead to what it has. */
export function linkWithin(name, isLake) {
  links.prefix = name ? '/store/' + encodeURIComponent(name) : '';
  if (isLake) links.toPage = inLake;
}

/** The address of a page: `to(['turn', name], {file: path})`. */
export function to(place, wanted) {
  const [parts, query] = links.toPage(place, wanted);
  const given = Object.entries(query || {}).filter(([, v]) => isGiven(v) && v !== false);
  const path = links.prefix + '/' + parts.map(encodeURIComponent).join('/').replaceAll('%40', '@').replaceAll('%3A', ':');
  return (isRecorded ? '#' : '') + path + (given.length ? '?' + new URLSearchParams(given) : '');
}

/** Writes the address without a page change; `added` makes a step that the back button takes back. */
export function writeAddress(address, added) {
  const current = isRecorded ? location.hash : location.pathname + location.search;
  if (address === current) return;
  if (added) history.pushState(null, '', address);
  else history.replaceState(null, '', address);
}

/** A lake has events and no pages of them: of a session, a turn, an event or a file there is a question in SQL. */
function inLake([kind, name], query) {
  const text = (value) => "'" + value.replaceAll("'", "''") + "'";
  const [session, turn] = kind === 'turn' ? name.split('@')[0].split('_') : [name];
  const condition = {
    s: () => `session_id = ${text(session)}`, turn: () => `session_id = ${text(session)} and turn_id = ${text(turn)}`,
    event: () => `event_id = ${text(name)}`, file: () => `path = ${text(query.path)}`,
  }[kind];
  return condition ? [['sql'], {q: `select * from events where ${condition()} order by position`}] : [[kind, name].filter(isGiven), query];
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
