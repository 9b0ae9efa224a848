// Where no file is chosen: what the turn changed.

import {el} from './dom.js';
import {count} from './words.js';
import {comparedFile} from './compared.js';

const CHANGED_LISTED = 200;

/** `counts`: path to lines added and removed, where they are known. */
export function overviewNodes(position, counts, signal) {
  const {marks, spine, moment, query} = position;
  const shown = [...marks].slice(0, CHANGED_LISTED).map(([file, mark]) => {
    const path = spine.paths[file];
    const [added, removed] = counts.get(path) || [null, null];
    const change = {path, old_path: position.oldPath(mark), operation: mark.operation, added, removed, reason: mark.between && 'changed between turns'};
    const {before, after = moment} = position.sides(mark);
    return comparedFile(change, [before, after], signal, query);
  });
  const more = marks.size - shown.length;
  return [el('h2', marks.size ? count(marks.size, 'file') + ' changed' : 'This turn changed no file'), shown,
    more > 0 && el('p.dim', `and ${count(more, 'more')}: “changed only” above the tree lists all`),
    !marks.size && el('p.dim', 'Choose a file of the tree to see it as it was at this moment.')];
}
