// A list of which only the rows that can be seen are elements. All rows have one height.

import {el} from './dom.js';

const ROWS_BESIDE = 6;

/** `{node, show(rows), reach(number), refresh()}`; `draw(row, number)` makes the element of a row. */
export function makeList(attributes, rowHeight, draw) {
  const inside = el('div.rows', {role: attributes.inside || 'presentation'});
  delete attributes.inside;
  const node = el('div.list', {tabindex: '0', ...attributes}, inside);
  const list = {node, inside, rows: []};
  let drawn = '';
  list.refresh = () => {
    const first = Math.max(Math.floor(node.scrollTop / rowHeight) - ROWS_BESIDE, 0);
    const last = Math.min(first + Math.ceil((node.clientHeight || 600) / rowHeight) + 2 * ROWS_BESIDE, list.rows.length);
    const key = first + ':' + last;
    if (key === drawn) return;
    drawn = key;
    inside.style.paddingTop = first * rowHeight + 'px';
    inside.replaceChildren(...list.rows.slice(first, last).map((row, n) => draw(row, first + n)));
  };
  list.show = (rows) => {
    list.rows = rows;
    inside.style.height = rows.length * rowHeight + 'px';
    drawn = '';
    list.refresh();
  };
  list.reach = (number) => {
    const top = number * rowHeight;
    if (top < node.scrollTop) node.scrollTop = top;
    else if (top + rowHeight > node.scrollTop + node.clientHeight) node.scrollTop = top + rowHeight - node.clientHeight;
    drawn = '';
    list.refresh();
  };
  node.addEventListener('scroll', list.refresh, {passive: true});
  new ResizeObserver(list.refresh).observe(node);
  return list;
}
