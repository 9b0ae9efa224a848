// Long lists: of which only the rows that can be seen are elements, all of one height; or of which there is a part at first.

import {el} from './dom.js';
import {count} from './words.js';

export const LINE_HEIGHT = 20;
const ROWS_BESIDE = 6;

/** `{node, inside, show(rows), reach(number), redraw()}`; `draw(row, number)` makes the element of a row. */
export function makeList(attributes, rowHeight, draw) {
  const inside = el('div.rows', {role: 'presentation'});
  const node = el('div.list', {tabindex: '0', ...attributes}, inside);
  let rows = [];
  let drawn = '';
  const refresh = () => {
    const first = Math.max(Math.floor(node.scrollTop / rowHeight) - ROWS_BESIDE, 0);
    const last = Math.min(first + Math.ceil((node.clientHeight || 600) / rowHeight) + 2 * ROWS_BESIDE, rows.length);
    if (drawn === first + ':' + last) return;
    drawn = first + ':' + last;
    inside.style.paddingTop = first * rowHeight + 'px';
    inside.replaceChildren(...rows.slice(first, last).map((row, n) => draw(row, first + n)));
  };
  const redraw = () => {
    drawn = '';
    refresh();
  };
  const show = (all) => {
    rows = all;
    inside.style.height = rows.length * rowHeight + 'px';
    redraw();
  };
  const reach = (number) => {
    const top = number * rowHeight;
    node.scrollTop = Math.max(Math.min(node.scrollTop, top), top + rowHeight - node.clientHeight);
    redraw();
  };
  node.addEventListener('scroll', refresh, {passive: true});
  new ResizeObserver(refresh).observe(node);
  return {node, inside, show, reach, redraw};
}

/** Lines of a file, for its pane: `{nodes, list, fill(top)}`. `width` gives how many characters wide a row is. */
export function lineList(label, rows, draw, width, height = LINE_HEIGHT) {
  const list = makeList({role: 'group', 'aria-label': label, class: 'list lines' + (height === LINE_HEIGHT ? '' : ' linked')}, height, draw);
  const fill = (top) => {
    const longest = rows.reduce((most, row) => Math.max(most, width(row)), 0);
    list.inside.style.minWidth = Math.min(longest, 3000) + 14 + 'ch';
    list.show(rows);
    list.node.scrollTop = top;
  };
  return {nodes: [list.node], list, fill};
}

/** The elements of the first rows, and a button in whose place the next ones come. */
export function inParts(rows, size, draw, word) {
  const nodes = rows.slice(0, size).map(draw);
  const rest = rows.slice(size);
  if (!rest.length) return nodes;
  const more = el('button', {onclick: () => more.replaceWith(...inParts(rest, size, draw, word).flat(Infinity))}, 'Show ' + count(rest.length, 'more ' + word));
  return [...nodes, more];
}
