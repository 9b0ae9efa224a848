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

/** All links begin with this store from now on; empty where there is one. */
export function linkWithin(name) {
  links.prefix = name ? '/store/' + encodeURIComponent(name) : '';
}

/** All links lead to what this gives of `(parts, query)` from now on. */
export function linkBy(toPage) {
  links.toPage = toPage;
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

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
