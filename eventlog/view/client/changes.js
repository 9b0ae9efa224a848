// Changes of lines, and lists of changed files.

import {el, oneLine, refill} from './dom.js';
import {ask} from './source.js';
import {complaint} from './frame.js';
import {plusMinus} from './words.js';
import {to} from './address.js';

const LINES_AT_ONCE = 400;
const WORDS_OF = {A: 'added', M: 'changed', D: 'deleted', R: 'renamed', T: 'mode or type changed', C: 'copied'};
const LETTERS = {add: 'A', create: 'A', edit: 'M', write: 'M', modify: 'M', delete: 'D', rename: 'R', mode: 'T', type: 'T'};

/** The letter of an operation, and its words for who does not see it. */
export function operationMark(operation) {
  if (!operation) return null;
  const letter = operation.length === 1 ? operation : LETTERS[operation] || operation.slice(0, 1).toUpperCase();
  return el('span.mark.op' + letter, {title: WORDS_OF[letter] || operation}, letter);
}

/** One changed file: letter, path, counts; a link only outside of what opens when it is clicked. */
export function changeLine(change, link) {
  const path = change.old_path ? change.old_path + ' → ' + change.path : change.path;
  return el('span.change', operationMark(change.operation), ' ', link ? el('a.path', {href: link}, oneLine(path, 300)) : el('span.path', oneLine(path, 300)), ' ',
    plusMinus(change.added, change.removed),
    change.binary ? el('span.dim', ' binary') : null, change.withheld ? el('span.dim', ' withheld' + (change.withheld === true ? '' : ': ' + change.withheld)) : null,
    change.reason ? el('span.dim', ' ' + change.reason) : null);
}

/** Rows of `hunks` for a table of lines: `[sign, old number, new number, text]`, headers with the sign `@`. */
export function rowsOfHunks(hunks) {
  return hunks.flatMap((hunk) => [['@', null, null, hunk.header], ...hunk.lines]);
}

/** Rows of a unified diff as it is recorded: its head is not a change. */
export function rowsOfDiff(diff) {
  const rows = [];
  let left = null;
  let right = null;
  for (const line of diff.replace(/\n$/, '').split('\n')) {
    const head = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (head) {
      [left, right] = [Number(head[1]), Number(head[2])];
      rows.push(['@', null, null, line]);
    } else if (left !== null && '+- \\'.includes(line.charAt(0))) {
      const sign = line.charAt(0);
      rows.push([sign, sign === '+' || sign === '\\' ? null : left++, sign === '-' || sign === '\\' ? null : right++, line.slice(1)]);
    }
  }
  return rows;
}

/** One line of a change. */
export function drawChangedLine([sign, old, now, text]) {
  const kind = {'+': '.added', '-': '.removed', '@': '.hunk'}[sign] || '';
  if (sign === '@') return el('div.line.hunk', text);
  return el('div.line' + kind, el('span.no', old ?? ''), el('span.no', now ?? ''),
    el('span.sign', sign === '-' ? '−' : sign), el('span.code', text));
}

/** All lines of a change in a box, a part at first. */
export function changeBox(rows, path) {
  const box = el('div.lines.boxed', {tabindex: '0', role: 'group', 'aria-label': 'Changed lines of ' + path});
  const more = (from) => {
    box.append(...rows.slice(from, from + LINES_AT_ONCE).map(drawChangedLine));
    const next = from + LINES_AT_ONCE;
    if (next >= rows.length) return;
    const button = el('button', {onclick: () => {
      button.remove();
      more(next);
    }}, 'Show ' + (rows.length - next) + ' more lines');
    box.append(button);
  };
  more(0);
  return box;
}

/** The address of a file at a moment. */
export function fileLink(moment, path, mode, more) {
  return to(['turn', moment], {file: path, mode: mode === 'text' ? '' : mode, ...more});
}

/** A changed file whose lines are asked for when it is opened, or by its `load`. */
export function comparedFile(file, [a, b], open, signal, query) {
  const body = el('div');
  const link = fileLink(['D', 'delete'].includes(file.operation) ? a : b, file.path, query ? 'change' : 'text', query);
  let asked = false;
  const node = el('details.compared', {open}, el('summary', changeLine(file)), body, el('p', el('a', {href: link}, 'Open the file')));
  node.load = async () => {
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
