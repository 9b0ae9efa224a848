// Boxes with the lines of a change.

import {el} from './dom.js';
import {inParts} from './list.js';
import {drawChangedLine} from './changes.js';

const LINES_AT_ONCE = 400;

/** All lines of a change in a box, a part at first. */
export function changeBox(rows, path) {
  return el('div.lines.boxed', {tabindex: '0', role: 'group', 'aria-label': 'Changed lines of ' + path},
    inParts(rows, LINES_AT_ONCE, drawChangedLine, 'line'));
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
