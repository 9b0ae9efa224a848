// Addresses of pages: what the bar of the browser says, and links to other places.

import {isRecorded} from './source.js';

const store = {prefix: ''};

/** `{parts, query}` of the address that is shown; `parts` without the store, which `store` names. */
export function readAddress() {
  const whole_ = isRecorded ? location.hash.slice(1) || '/' : location.pathname + location.search;
  const url = new URL('http://x' + (whole_.startsWith('/') ? whole_ : '/'));
  let parts = url.pathname.split('/').filter(Boolean).map(decoded);
  let name = '';
  if (parts[0] === 'store') {
    name = parts[1] || '';
    parts = parts.slice(2);
  }
  return {parts, query: url.searchParams, store: name};
}

/** All links begin with this store from now on; empty where there is one. */
export function linkWithin(name) {
  store.prefix = name ? '/store/' + encodeURIComponent(name) : '';
}

/** The address of a page: `to(['turn', name], {file: path})`. */
export function to(parts, query) {
  const given = Object.entries(query || {}).filter(([, v]) => v !== null && v !== undefined && v !== '' && v !== false);
  const path = store.prefix + '/' + parts.map(encodeURIComponent).join('/').replaceAll('%40', '@').replaceAll('%3A', ':');
  const search = given.length ? '?' + new URLSearchParams(given) : '';
  return (isRecorded ? '#' : '') + path + search;
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
