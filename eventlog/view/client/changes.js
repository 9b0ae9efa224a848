// Files that changed: how one is named, and its lines.

import {el, oneLine, refill} from './dom.js';
import {complain} from './frame.js';
import {inParts} from './list.js';
import {plusMinus} from './words.js';
import {to} from './address.js';

const LINES_AT_ONCE = 400;

const WORDS_OF = {A: 'added', M: 'changed', D: 'deleted', R: 'renamed', T: 'mode or type changed', C: 'copied'};
const LETTERS = {add: 'A', create: 'A', edit: 'M', write: 'M', modify: 'M', delete: 'D', rename: 'R', mode: 'T', type: 'T'};

/** The letter of an operation, and its words for who does not see it. */
export function operationMark(operation) {
  if (!operation) return null;
  const letter = operation.length === 1 ? operation : LETTERS[operation] || operation[0].toUpperCase();
  return el('span.mark.op' + letter, {title: WORDS_OF[letter] || operation}, letter);
}

/** One changed file: letter, path, counts; a link only outside of what opens when it is clicked. */
export function changeLine(change, link) {
  const path = oneLine(change.old_path ? change.old_path + ' → ' + change.path : change.path, 300);
  const notes = [change.binary && 'binary', change.withheld && (change.withheld === true ? 'withheld' : 'withheld: ' + change.withheld), change.reason];
  return el('span.change', operationMark(change.operation), ' ', link ? el('a.path', {href: link}, path) : el('span.path', path), ' ',
    plusMinus(change.added, change.removed), notes.filter(Boolean).map((note) => el('span.dim', ' ' + note)));
}

/**
 * A file whose lines are there when it is opened, or by its `load`; `link` leads to the file. `lines()` gives `{rows, why}`; a row is
 * `[sign, old number, new number, text]`, a header has the sign `@`.
 */
export function changedFile(kind, change, link, lines) {
  const body = el('div');
  let isAsked = false;
  const load = async () => {
    node.open = true;
    if (isAsked) return;
    isAsked = true;
    try {
      const {rows, why} = await lines();
      refill(body, rows.length ? linesBox(rows, change.path) : el('p.dim', why || 'No line changed.'));
    } catch (failure) {
      isAsked = false;
      complain(body, failure);
    }
  };
  const node = el('details.' + kind, {ontoggle: () => node.open && load()}, el('summary', changeLine(change)), body, el('p', el('a', {href: link}, 'Open the file')));
  return Object.assign(node, {load});
}

function linesBox(rows, path) {
  return el('div.lines.boxed', {tabindex: '0', role: 'group', 'aria-label': 'Changed lines of ' + path},
    inParts(rows, LINES_AT_ONCE, drawChangedLine, 'line'));
}

/** One line of a change. */
export function drawChangedLine([sign, old, now, text]) {
  if (sign === '@') return el('div.line.hunk', text);
  return el('div.line' + ({'+': '.added', '-': '.removed'}[sign] || ''), el('span.no', old ?? ''), el('span.no', now ?? ''),
    el('span.sign', sign === '-' ? '−' : sign), el('span.code', text));
}

/** The address of a file at a moment. */
export function fileLink(moment, path, mode, query) {
  return to(['turn', moment], {file: path, mode: mode === 'text' ? '' : mode, ...query});
}
