// What changed of a file, line by line.

import {el} from './dom.js';
import {lineList} from './list.js';
import {drawChangedLine} from './changes.js';
import {linesBetween} from './compared.js';

/** What the file pane shows of a place as `change`. */
export async function fileChange(place) {
  if (!place.before) return {nodes: [el('p.empty', 'There is no moment before this one to compare with.')]};
  const {rows, why} = await linesBetween(place.before, place.after, place.path, place.signal);
  const against = el('p.dim.against', place.beforeWords);
  if (!rows.length) return {nodes: [against, el('p.empty', (why || 'nothing of it changed') + '. History has the turns that changed it (J, K).')]};
  const shown = lineList('Change of the file', rows, drawChangedLine, (row) => row[3].length + 8);
  shown.nodes.unshift(against);
  return shown;
}
