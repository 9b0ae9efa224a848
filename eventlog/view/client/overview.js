// Where no file is chosen: what the turn changed, and how its conversation goes on.

import {el, refill} from './dom.js';
import {ask} from './source.js';
import {commandBox, namePage} from './frame.js';
import {count} from './words.js';
import {comparedFile} from './compared.js';

const CHANGED_LISTED = 200;

/** Shows what the turn changed; the lines of each file are asked for when it is opened. */
export function showOverview({position, counts, overview, moment: head, page}, signal) {
  const {marks, spine, moment, query} = position;
  const shown = [...marks].slice(0, CHANGED_LISTED).map(([file, mark]) => {
    const path = spine.paths[file];
    const [added, removed] = counts.get(path) || [null, null];
    const change = {path, old_path: position.oldPath(mark), operation: mark.operation, added, removed, reason: mark.between && 'changed between turns'};
    const {before, after = moment} = position.sides(mark);
    return comparedFile(change, [before, after], signal, query);
  });
  const more = marks.size - shown.length;
  refill(overview, el('h2', marks.size ? count(marks.size, 'file') + ' changed' : 'This turn changed no file'), shown,
    more > 0 && el('p.dim', `and ${count(more, 'more')}: “changed only” above the tree lists all`),
    !marks.size && el('p.dim', 'Choose a file of the tree to see it as it was at this moment.'));
  if (head.resume === undefined) askResume(head, position.session, page.signal);
}

/** Asks for the command that goes on with the agent's conversation, once. */
async function askResume(head, session, signal) {
  head.resume = null;
  if (!session) return;
  try {
    const {sessions: [row]} = await ask('sessions', {session}, signal);
    head.resume = row && row.resume && el('span.resume', el('span.dim', 'Go on with this conversation: '), commandBox(row.resume));
    head.tell();
  } catch {
    // The page is whole without it.
  }
}

/** Says that there is no turn, and how there will be some. */
export function showNothing({position: {session, home}, moment, overview}) {
  refill(moment.title, session ? 'No turn is recorded of this session' : 'No turn is recorded yet');
  refill(overview, el('p.empty', 'locus hooks install records what agents do from now on, locus import what they did before.'));
  namePage('No turns', 'locus log', home);
}
