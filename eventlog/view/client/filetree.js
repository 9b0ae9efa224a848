// The tree of files: a list of which only what can be seen are elements, as a tree for assistive programs.

import {el, oneLine, refill, showWords} from './dom.js';
import {makeList} from './list.js';
import {operationMark} from './changes.js';
import {KIND_WORDS, nameOf, rowsOf} from './spine.js';
import {plusMinus, whole} from './words.js';

const ROW_HEIGHT = 24;
const ROWS_OPENED = 34;
const ROWS_OF_PAGE = 20;

/** `{node, filter, show(seen), redraw()}`; `seen`: spine, marks, counts, path (the chosen one or null), grey. */
export function makeTree(openFile) {
  const wanted = {open: new Set(), filter: '', changedOnly: false};
  let [seen, rows, active] = [{path: null}, [], 0];
  const narrow = () => {
    Object.assign(wanted, {filter: filter.value, changedOnly: only.checked});
    refresh();
    stand(0);
  };
  const filter = el('input', {type: 'search', placeholder: 'Filter', 'aria-label': 'Filter files', oninput: narrow});
  const only = el('input', {type: 'checkbox', onchange: narrow});
  const title = el('h2', 'Files');
  const why = el('p.doubt');
  const list = makeList({
    'aria-label': 'Files at this moment', role: 'tree', class: 'list tree', onkeydown: (event) => pressed(event),
    onclick: ({target}) => target.closest('[data-row]') && act(Number(target.closest('[data-row]').dataset.row)),
  }, ROW_HEIGHT, (row, n) => drawRow(row, n, n === active, seen));
  const choose = (number) => {
    active = Math.max(Math.min(number, rows.length - 1), 0);
    list.node.setAttribute('aria-activedescendant', 'row' + active);
  };
  const refresh = () => {
    rows = rowsOf(seen.spine, seen.marks, wanted);
    choose(active);
    list.show(rows);
  };
  const stand = (number) => {
    choose(number);
    list.reach(active);
  };
  const fold = ({folder, isOpen}) => {
    if (isOpen) wanted.open.delete(folder.path);
    else wanted.open.add(folder.path);
    refresh();
  };
  const act = (number) => {
    const row = rows[number];
    stand(number);
    if (row.folder) fold(row);
    else openFile(seen.spine.paths[row.file]);
  };
  const pressed = (event) => {
    const row = rows[active];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const go = {
      ArrowDown: () => stand(active + 1), ArrowUp: () => stand(active - 1), Home: () => stand(0), End: () => stand(rows.length - 1),
      PageDown: () => stand(active + ROWS_OF_PAGE), PageUp: () => stand(active - ROWS_OF_PAGE), Enter: () => act(active), ' ': () => act(active),
      ArrowRight: () => (row.folder && !row.isOpen ? fold(row) : stand(active + 1)),
      ArrowLeft: () => (row.folder && row.isOpen ? fold(row) : stand(rows.findLastIndex((r, n) => n < active && r.level < row.level))),
    }[event.key];
    if (!go) return;
    event.preventDefault();
    event.stopPropagation();
    go();
  };
  const show = (now) => {
    const before = seen;
    seen = now;
    if (!wanted.open.size) openSome(wanted.open, seen.spine.folders.root);
    refill(title, 'Files (' + whole(seen.spine.files.present) + ')');
    showWords(why, seen.grey);
    node.classList.toggle('grey', Boolean(seen.grey));
    const file = seen.path === before.path ? undefined : seen.spine.number.get(seen.path);
    for (let f = seen.spine.folders.of[file]; f; f = f.parent) wanted.open.add(f.path);
    refresh();
    const number = file === undefined ? -1 : rows.findIndex((row) => row.file === file);
    if (number >= 0) stand(number);
  };
  const node = el('section.files', {'aria-label': 'Files'}, el('div.filter', title, filter, el('label', only, ' changed only')), why, list.node);
  return {node, filter, show, redraw: list.redraw};
}

/** As many folders begin open as a screen has room for, those at the root first. */
function openSome(open, root) {
  const queue = [root];
  for (let room = ROWS_OPENED; queue.length && room > 0;) {
    const folder = queue.shift();
    room -= folder.folders.length + folder.files.length;
    if (room < 0 && folder.path) return;
    open.add(folder.path);
    queue.push(...folder.folders);
  }
}

function drawRow(row, n, isActive, seen) {
  const attributes = {
    id: 'row' + n, 'data-row': n, role: 'treeitem', 'aria-level': row.level, 'aria-setsize': row.size, 'aria-posinset': row.place,
    'aria-selected': String(isActive),
  };
  const kind = 'div.row.level' + Math.min(row.level, 10);
  if (!row.folder) return fileRow(kind, attributes, row.file, seen);
  return el(kind, {...attributes, 'aria-expanded': String(row.isOpen)}, el('span.fold', {'aria-hidden': 'true'}, row.isOpen ? '▾' : '▸'), oneLine(row.folder.name, 200),
    row.isMarked && el('span.dot', {title: 'with changes'}, ' ●'));
}

function fileRow(kind, attributes, file, {spine, marks, counts, path: chosen}) {
  const path = spine.paths[file];
  const entry = spine.files.entries[file];
  const mark = marks.get(file);
  const notes = entry ? [KIND_WORDS[entry[3]], spine.withheld[entry[1]] && 'withheld'].filter(Boolean) : [];
  return el(kind + (path === chosen ? '.open' : '') + (entry ? '' : '.gone'), {...attributes, title: path},
    el('span.name', oneLine(nameOf(path), 200)), notes.map((note) => el('span.dim', ' ' + note)),
    mark && [' ', mark.between ? el('span.mark.between', {title: 'changed between turns'}, '~ ' + mark.operation) : operationMark(mark.operation)],
    mark && counts.has(path) && [' ', plusMinus(...counts.get(path))]);
}
