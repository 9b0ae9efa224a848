// Tables.

import {el} from './dom.js';

/**
 * A table that scrolls in itself. A head is a text, or an element `th`; a row is a list of cells, each an element
 * `td` or what stands in one.
 */
export function table(label, kind, heads, rows) {
  const cell = (inside) => (inside instanceof HTMLTableCellElement ? inside : el('td', inside));
  const head = (inside) => (inside instanceof HTMLTableCellElement ? inside : el(inside ? 'th' : 'td', inside ? {scope: 'col'} : {}, inside));
  return el('div.wide', {tabindex: '0', role: 'region', 'aria-label': label}, el('table' + kind,
    el('thead', el('tr', heads.map(head))), el('tbody', rows.map((row) => el('tr', row.map(cell))))));
}
