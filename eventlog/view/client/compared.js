// A changed file whose lines are asked for when it is opened.

import {el, refill} from './dom.js';
import {ask} from './source.js';
import {complaint} from './frame.js';
import {changeLine, fileLink, rowsOfHunks} from './changes.js';
import {changeBox} from './diffs.js';

/** `file` as in the answer `compare`; its `load` opens it. `query` makes the link one to its change. */
export function comparedFile(file, [a, b], signal, query) {
  const body = el('div');
  const isDeleted = ['D', 'delete'].includes(file.operation);
  const link = fileLink(isDeleted ? a : b, file.path, query ? 'change' : 'text', query);
  let asked = false;
  const node = el('details.compared', el('summary', changeLine(file)), body, el('p', el('a', {href: link}, 'Open the file')));
  node.load = async () => {
    node.open = true;
    if (asked) return;
    asked = true;
    try {
      const answer = await ask('change', {a, b, path: file.path}, signal);
      const rows = rowsOfHunks(answer.hunks || []);
      refill(body, rows.length ? changeBox(rows, file.path) : el('p.dim', answer.why || 'No line changed.'));
    } catch (failure) {
      asked = false;
      if (failure.name !== 'AbortError') refill(body, complaint(failure));
    }
  };
  node.addEventListener('toggle', () => node.open && node.load());
  return node;
}
