// Changes of lines, and how a changed file is named.

import {el, oneLine} from './dom.js';
import {count, plusMinus, whole} from './words.js';
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

/** Rows of `hunks` for a table of lines: `[sign, old number, new number, text]`, headers with the sign `@`. */
export function rowsOfHunks(hunks) {
  return hunks.flatMap((hunk) => [['@', null, null, hunk.header], ...hunk.lines]);
}

/** Rows of a unified diff as it is recorded: its head is not a change. */
export function rowsOfDiff(diff) {
  const rows = [];
  let [left, right] = [0, 0];
  for (const line of diff.replace(/\n$/, '').split('\n')) {
    const head = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    const sign = line.charAt(0);
    if (head) {
      [left, right] = [Number(head[1]), Number(head[2])];
      rows.push(['@', null, null, line]);
    } else if (rows.length && '+- \\'.includes(sign)) {
      rows.push([sign, '- '.includes(sign) ? left++ : null, '+ '.includes(sign) ? right++ : null, line.slice(1)]);
    }
  }
  return rows;
}

/** One line of a change. */
export function drawChangedLine([sign, old, now, text]) {
  if (sign === '@') return el('div.line.hunk', text);
  return el('div.line' + ({'+': '.added', '-': '.removed'}[sign] || ''), el('span.no', old ?? ''), el('span.no', now ?? ''),
    el('span.sign', sign === '-' ? '−' : sign), el('span.code', text));
}

/** All lines of a change in a box, a part at first. */
export function changeBox(rows, path) {
  return el('div.lines.boxed', {tabindex: '0', role: 'group', 'aria-label': 'Changed lines of ' + path},
    inParts(rows, LINES_AT_ONCE, drawChangedLine, 'line'));
}

/** The elements of the first rows, and a button in whose place the next ones come. */
export function inParts(rows, size, draw, word) {
  const nodes = rows.slice(0, size).map(draw);
  const rest = rows.slice(size);
  if (!rest.length) return nodes;
  const more = el('button', {onclick: () => more.replaceWith(...inParts(rest, size, draw, word).flat(Infinity))}, word ? 'Show ' + count(rest.length, 'more ' + word) : 'Show ' + whole(rest.length) + ' more');
  return [...nodes, more];
}

/** The address of a file at a moment. */
export function fileLink(moment, path, mode, query) {
  return to(['turn', moment], {file: path, mode: mode === 'text' ? '' : mode, ...query});
}
