// The spine in the browser (docs/view.md): the tree of any stop, from what each stop changed. No requests.

/** Kinds of files that are not plain. */
export const KIND_WORDS = {x: 'executable', l: 'symlink', m: 'submodule', d: 'empty directory', s: 'not captured'};

/**
 * The answer `spine`, with the tree of the stop `at`, -1 for none: `files` has an entry, as a change, or null for
 * each path, and how many there are; `folders` count those below them.
 */
export function makeSpine(answer) {
  const folders = makeFolders(answer.paths);
  const files = {entries: [], present: 0};
  const spine = {
    ...answer, folders, files, at: -1, ofTurn: stopsOfTurns(answer), number: new Map(answer.paths.map((path, n) => [path, n])),
  };
  const clear = () => {
    files.entries = new Array(answer.paths.length).fill(null);
    files.present = 0;
    for (const folder of folders.known.values()) folder.present = 0;
  };
  const set = (path, entry) => {
    const step = (entry ? 1 : 0) - (files.entries[path] ? 1 : 0);
    files.entries[path] = entry;
    if (!step) return;
    files.present += step;
    for (let folder = folders.of[path]; folder; folder = folder.parent) folder.present += step;
  };
  /** Stands at another stop: on from where it stands if that is below it, else from the empty tree. */
  spine.move = (stop) => {
    const below = [];
    let base = stop;
    for (; base >= 0 && base !== spine.at; base = answer.stops[base].base) below.push(base);
    if (base < 0) clear();
    for (const next of below.reverse()) {
      for (const change of answer.changes[next]) {
        const [path, old] = pathsOf(change);
        if (old !== undefined) set(old, null);
        set(path, change[4] === 'D' ? null : change);
      }
    }
    spine.at = stop;
  };
  clear();
  return spine;
}

/** The paths that a change sets: its own, and the one that a file was renamed from. */
export function pathsOf([path, , , , operation, old]) {
  return operation === 'R' && old !== null ? [path, old] : [path];
}

/** For each turn the numbers of its stops: `{start, end}`; `end` is where the slider stands. */
function stopsOfTurns(answer) {
  const ofTurn = answer.turns.map(() => ({start: null, end: null}));
  answer.stops.forEach((stop, n) => {
    ofTurn[stop.turn][stop.at] = n;
  });
  for (const stops of ofTurn) stops.end ??= stops.start;
  return ofTurn;
}

/** What is marked in the tree of a stop: number of the path → {operation, between, old}. */
export function marksAt(spine, stop) {
  const {turn, at} = spine.stops[stop];
  const {start} = spine.ofTurn[turn];
  const marks = new Map();
  for (const number of at === 'start' || start === null ? [stop] : [start, stop]) {
    // these are all files, and nobody changed them here
    if (spine.stops[number].base < 0) continue;
    const between = spine.stops[number].at === 'start';
    for (const [path, , , , operation, old] of spine.changes[number]) marks.set(path, {operation, between, old});
  }
  return marks;
}

/** The folders of paths: `root`, all by their paths, and the one of each path by its number. */
function makeFolders(paths) {
  const known = new Map();
  const above = (path) => folderOf(path.slice(0, Math.max(path.lastIndexOf('/'), 0)));
  const folderOf = (path) => {
    if (known.has(path)) return known.get(path);
    const parent = path ? above(path) : null;
    const folder = {path, name: nameOf(path), level: parent ? parent.level + 1 : 0, parent, present: 0, folders: [], files: []};
    if (parent) parent.folders.push(folder);
    known.set(path, folder);
    return folder;
  };
  const root = folderOf('');
  const of = paths.map(above);
  of.forEach((folder, file) => folder.files.push(file));
  return {root, known, of};
}

export function nameOf(path) {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** The rows of the tree that can be seen: `{folder}` or `{file}`, with level, place among its siblings, marks. */
export function rowsOf(spine, marks, {filter, changedOnly, open}) {
  const words = filter.toLowerCase();
  const isNarrow = words || changedOnly;
  const shows = (file) => (spine.files.entries[file] || marks.has(file)) && (!changedOnly || marks.has(file)) &&
    (!words || spine.paths[file].toLowerCase().includes(words));
  const marked = foldersAbove(spine, marks.keys());
  const holding = isNarrow ? foldersAbove(spine, [...spine.paths.keys()].filter(shows)) : null;
  const rows = [];
  const walk = (folder) => {
    const folders = folder.folders.filter((f) => (isNarrow ? holding.has(f) : f.present || marked.has(f)));
    const files = folder.files.filter(shows);
    const place = {level: folder.level + 1, size: folders.length + files.length};
    folders.forEach((f, n) => {
      const isOpen = isNarrow || open.has(f.path);
      rows.push({...place, place: n + 1, folder: f, isOpen, isMarked: marked.has(f)});
      if (isOpen) walk(f);
    });
    files.forEach((file, n) => rows.push({...place, place: folders.length + n + 1, file}));
  };
  walk(spine.folders.root);
  return rows;
}

function foldersAbove(spine, files) {
  const folders = new Set();
  for (const file of files) for (let f = spine.folders.of[file]; f && !folders.has(f); f = f.parent) folders.add(f);
  return folders;
}
