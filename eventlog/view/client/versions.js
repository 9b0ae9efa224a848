// The versions of a file, newest first.

import {el, oneLine} from './dom.js';
import {ask} from './source.js';
import {plusMinus, time} from './words.js';
import {fileLink, operationMark} from './changes.js';
import {table} from './tables.js';
import {to} from './address.js';

/** What the file pane shows of a place as `history`. */
export async function fileHistory(place) {
  const {versions} = await ask('history', {path: place.path}, place.signal);
  return {nodes: [versionTable(versions, place.query)]};
}

export function versionTable(versions, query) {
  if (!versions.length) return el('p.empty', 'No event of this file is recorded.');
  return table('Versions', '', ['Turn', 'When', 'Lines', 'Path'], versions.map((version) => [
    [operationMark(version.operation), ' ',
      el('a', {href: version.turn ? fileLink(version.turn, version.path, 'change', query) : to(['event', version.event_id])}, oneLine(version.title || version.turn || 'without a turn', 90)),
      version.certain === false && el('span.dim', ' not certain')],
    time(version.at), plusMinus(version.added, version.removed), el('td.path', oneLine(version.path, 120))]));
}
