// Lines that changed, and how a changed file is named.

import {el, oneLine} from './dom.js';
import {plusMinus} from './words.js';
import {to} from './address.js';

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

/** Rows of `hunks` for a table of lines: `[sign, old number, new number, text]`, headers with the sign `@`. */
export function rowsOfHunks(hunks) {
  return hunks.flatMap((hunk) => [['@', null, null, hunk.header], ...hunk.lines]);
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
