// The tree of files: a list of which only what can be seen are elements, as a tree for assistive programs.

import {el, oneLine, refill} from './dom.js';
import {makeList} from './list.js';
import {filesWords} from './filepane.js';
import {operationMark} from './changes.js';
import {rowsOf} from './spine.js';
import {plusMinus} from './words.js';

const ROW_HEIGHT = 24;
const ROWS_OPENED = 34;
const KIND_WORDS = {x: 'executable', l: 'symlink', m: 'submodule', d: 'empty', s: 'not captured'};

/** `{node, show(seen), filter}`; `seen`: spine, marks, counts, file (a number of paths or null), grey. */
export function makeTree(openFile) {
  const wanted = {open: new Set(), filter: '', changedOnly: false};
  const filter = el('input', {type: 'search', placeholder: 'Filter', 'aria-label': 'Filter files', oninput: () => narrow()});
  const only = el('input', {type: 'checkbox', onchange: () => narrow()});
  const title = el('h2', 'Files');
  const why = el('p.doubt', {hidden: true});
  const tree = {wanted, filter, active: 0, rows: [], seen: null};
  const list = makeList({'aria-label': 'Files at this moment', role: 'tree', class: 'list tree', onkeydown: (e) => move(tree, list, e), inside: 'presentation'},
    ROW_HEIGHT, (row, n) => drawRow(tree, row, n));
  tree.list = list;
  tree.openFile = openFile;
  tree.refresh = () => {
    tree.rows = rowsOf(tree.seen.spine, tree.seen.marks, wanted);
    tree.active = Math.min(tree.active, Math.max(tree.rows.length - 1, 0));
    list.node.setAttribute('aria-activedescendant', 'row' + tree.active);
    list.show(tree.rows);
  };
  const narrow = () => {
    wanted.filter = filter.value;
    wanted.changedOnly = only.checked;
    tree.active = 0;
    list.node.scrollTop = 0;
    tree.refresh();
  };
  tree.show = (seen) => {
    if (!tree.seen || tree.seen.spine !== seen.spine) openSome(wanted, seen);
    tree.seen = seen;
    refill(title, filesWords(seen.spine.files.present));
    refill(why, seen.grey);
    why.hidden = !seen.grey;
    tree.node.classList.toggle('grey', Boolean(seen.grey));
    tree.refresh();
  };
  /** Opens the folders above a file and goes there. */
  tree.reach = (file) => {
    for (let f = tree.seen.spine.folders.of[file]; f; f = f.parent) wanted.open.add(f.path);
    tree.refresh();
    const number = tree.rows.findIndex((row) => row.file === file);
    if (number >= 0) standAt(tree, list, number);
  };
  list.node.addEventListener('click', (event) => {
    const node = event.target.closest('[data-row]');
    if (node) act(tree, list, Number(node.dataset.row));
  });
  tree.node = el('section.files', {'aria-label': 'Files'}, el('div.filter', title, filter, el('label', only, ' changed only')), why, list.node);
  return tree;
}

/** As many folders begin open as a screen has room for, those at the root first. */
function openSome(wanted, {spine}) {
  if (wanted.open.size) return;
  const queue = [spine.folders.root];
  for (let room = ROWS_OPENED; queue.length && room > 0;) {
    const folder = queue.shift();
    room -= folder.folders.length + folder.files.length;
    if (room < 0 && folder.path) return;
    wanted.open.add(folder.path);
    queue.push(...folder.folders);
  }
}

function drawRow(tree, row, n) {
  const {spine, marks, counts, file} = tree.seen;
  const attributes = {
    id: 'row' + n, 'data-row': n, role: 'treeitem', 'aria-level': row.level, 'aria-setsize': row.size, 'aria-posinset': row.place,
    'aria-selected': String(n === tree.active), class: 'row level' + Math.min(row.level, 10) + (row.file !== undefined && row.file === file ? ' open' : ''),
  };
  if (row.folder) {
    return el('div', {...attributes, 'aria-expanded': String(row.open)}, el('span.fold', {'aria-hidden': 'true'}, row.open ? '▾' : '▸'), oneLine(row.folder.name, 200),
      row.marked ? el('span.dot', {title: 'with changes'}, ' ●') : null);
  }
  const path = spine.paths[row.file];
  const entry = spine.files.entries[row.file];
  const mark = marks.get(row.file);
  const kind = entry && KIND_WORDS[entry[3]];
  const locked = entry && entry[1] !== null && spine.withheld && spine.withheld[entry[1]];
  return el('div', {...attributes, class: attributes.class + (entry ? '' : ' gone'), title: path},
    el('span.name', oneLine(path.slice(path.lastIndexOf('/') + 1), 200)),
    kind ? el('span.dim', ' ' + kind) : null, locked ? el('span.dim', ' withheld') : null,
    mark ? [' ', mark.between ? el('span.mark.between', {title: 'changed between turns'}, '~ ' + mark.operation) : operationMark(mark.operation)] : null,
    mark && counts.has(path) ? [' ', plusMinus(...counts.get(path))] : null);
}

function act(tree, list, number) {
  const row = tree.rows[number];
  standAt(tree, list, number);
  if (row.folder) toggle(tree, row, !row.open);
  else tree.openFile(row.file);
}

function toggle(tree, row, open) {
  if (open) tree.wanted.open.add(row.folder.path);
  else tree.wanted.open.delete(row.folder.path);
  tree.refresh();
}

function standAt(tree, list, number) {
  tree.active = number;
  list.node.setAttribute('aria-activedescendant', 'row' + number);
  list.reach(number);
}

function move(tree, list, event) {
  const row = tree.rows[tree.active];
  if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
  const last = tree.rows.length - 1;
  const parent = () => tree.rows.findLastIndex((r, n) => n < tree.active && r.level < row.level);
  const acts = {
    ArrowDown: () => standAt(tree, list, Math.min(tree.active + 1, last)),
    ArrowUp: () => standAt(tree, list, Math.max(tree.active - 1, 0)),
    Home: () => standAt(tree, list, 0),
    End: () => standAt(tree, list, last),
    PageDown: () => standAt(tree, list, Math.min(tree.active + 20, last)),
    PageUp: () => standAt(tree, list, Math.max(tree.active - 20, 0)),
    ArrowRight: () => (row.folder && !row.open ? toggle(tree, row, true) : standAt(tree, list, Math.min(tree.active + 1, last))),
    ArrowLeft: () => (row.folder && row.open ? toggle(tree, row, false) : standAt(tree, list, Math.max(parent(), 0))),
    Enter: () => act(tree, list, tree.active),
    ' ': () => act(tree, list, tree.active),
  };
  if (!acts[event.key]) return;
  event.preventDefault();
  event.stopPropagation();
  acts[event.key]();
}
