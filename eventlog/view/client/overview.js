// Where no file is chosen: what the turn changed.

import {el, refill} from './dom.js';
import {namePage} from './frame.js';
import {inParts} from './list.js';
import {count} from './words.js';
import {comparedFile} from './compared.js';

const CHANGED_LISTED = 200;

/** Shows what the turn changed; the lines of each file are asked for when it is opened. */
export function showOverview({position, counts, overview}, signal) {
  const {marks, spine, moment, query} = position;
  const shown = inParts([...marks], CHANGED_LISTED, ([file, mark]) => {
    const path = spine.paths[file];
    const [added, removed] = counts.get(path) || [null, null];
    const change = {path, old_path: position.oldPath(mark), operation: mark.operation, added, removed, reason: mark.between && 'changed between turns'};
    const {before, after = moment} = position.sides(mark);
    return comparedFile(change, [before, after], signal, query);
  }, 'file');
  refill(overview, el('h2', marks.size ? count(marks.size, 'file') + ' changed' : 'This turn changed no file'), shown);
}

/** Says that there is no turn, and how there will be some. */
export function showNothing({position: {session, home}, moment, overview}) {
  refill(moment.title, session ? 'No turn is recorded of this session' : 'No turn is recorded yet');
  refill(overview, el('p.empty', 'locus hooks install records what agents do from now on, locus import what they did before.'));
  namePage('No turns', 'locus log', home);
}
