// The spine in the browser (docs/view.md): the tree of any stop, from what each stop changed. No requests.

/** A spine that stands nowhere yet. An entry is `[path, hash, size, kind, operation, old path]` or null. */
export function makeSpine(answer) {
  const {stops, changes} = answer;
  const folders = makeFolders(answer.paths);
  const files = {entries: new Array(answer.paths.length).fill(null), present: 0};
  const spine = {
    ...answer, folders, files, at: -1, ofTurn: stopsOfTurns(answer), stopsOfPath: new Map(), undo: [],
    number: new Map(answer.paths.map((path, n) => [path, n])),
  };
  const set = (path, entry) => {
    const step = (entry ? 1 : 0) - (files.entries[path] ? 1 : 0);
    files.entries[path] = entry;
    if (!step) return;
    files.present += step;
    for (let folder = folders.of[path]; folder; folder = folder.parent) folder.present += step;
  };
  const apply = (stop) => {
    for (const change of changes[stop]) for (const [path, entry] of effects(change)) set(path, entry);
    spine.at = stop;
  };
  stops.forEach((stop, n) => {
    const touched = changes[n].flatMap(effects).map(([path]) => path);
    const inPlace = stop.base === spine.at;
    spine.undo.push([...new Set(touched)].map((path) => [path, inPlace ? files.entries[path] : entryAt(answer, stop.base, path)]));
    if (stop.base >= 0) for (const path of new Set(touched)) listOf(spine.stopsOfPath, path).push(n);
    if (inPlace && stop.source === 'tree') apply(n);
  });
  /** Stands at another stop: back to the stop that both began from, and on from there. */
  spine.move = (stop) => {
    const ahead = [];
    let from = spine.at;
    for (let to_ = stop; from !== to_;) {
      if (to_ > from) {
        ahead.push(to_);
        to_ = stops[to_].base;
      } else from = stops[from].base;
    }
    if (from < 0) empty(spine);
    while (spine.at !== from) {
      for (const [path, entry] of spine.undo[spine.at]) set(path, entry);
      spine.at = stops[spine.at].base;
    }
    for (const next of ahead.reverse()) apply(next);
  };
  return spine;
}

function empty(spine) {
  spine.files.entries.fill(null);
  spine.files.present = 0;
  for (const folder of spine.folders.known.values()) folder.present = 0;
  spine.at = -1;
}

/** What a path is at a stop, from the changes of the stops that it is based on. */
function entryAt(answer, stop, path) {
  for (let n = stop; n >= 0; n = answer.stops[n].base) {
    const own = answer.changes[n].flatMap(effects).findLast(([changed]) => changed === path);
    if (own) return own[1];
  }
  return null;
}

function effects(change) {
  if (change[4] === 'D') return [[change[0], null]];
  const moved = change[4] === 'R' && change[5] !== null && change[5] !== undefined;
  return moved ? [[change[5], null], [change[0], change]] : [[change[0], change]];
}

/** For each turn the numbers of its stops: `{start, end}`; `end` is where the slider stands. */
function stopsOfTurns(answer) {
  const found = answer.turns.map(() => ({start: null, end: null}));
  answer.stops.forEach((stop, n) => {
    found[stop.turn][stop.at === 'start' ? 'start' : 'end'] = n;
  });
  for (const stops of found) if (stops.end === null) stops.end = stops.start;
  return found;
}

/** What is marked in the tree of the stop where the spine stands: path → {operation, between, old}. */
export function marksAt(spine, stop) {
  const marks = new Map();
  const add = (number, between) => {
    if (spine.stops[number].base < 0) return; // these are all files, and nobody changed them here
    for (const [path, , , , operation, old] of spine.changes[number]) marks.set(path, {operation, between, old});
  };
  const {turn, at} = spine.stops[stop];
  const start = spine.ofTurn[turn].start;
  if (at === 'start') add(stop, true);
  else {
    if (start !== null && start !== stop) add(start, true);
    add(stop, false);
  }
  return marks;
}

/** The nearest stop at which `path` changed, after (+1) or before (-1) the turn; null where there is none. */
export function nextChange(spine, path, turn, direction) {
  const stops = (spine.stopsOfPath.get(path) || []).filter((stop) => (spine.stops[stop].turn - turn) * direction > 0);
  return stops.length ? spine.stops[direction > 0 ? stops[0] : stops[stops.length - 1]].turn : null;
}

function makeFolders(paths) {
  const root = {path: '', name: '', level: 0, parent: null, present: 0, folders: [], files: []};
  const known = new Map([['', root]]);
  const folderOf = (path) => {
    const known_ = known.get(path);
    if (known_) return known_;
    const cut = path.lastIndexOf('/');
    const parent = folderOf(cut < 0 ? '' : path.slice(0, cut));
    const made = {path, name: path.slice(cut + 1), level: parent.level + 1, parent, present: 0, folders: [], files: []};
    parent.folders.push(made);
    known.set(path, made);
    return made;
  };
  const of = paths.map((path, number) => {
    const cut = path.lastIndexOf('/');
    const folder = folderOf(cut < 0 ? '' : path.slice(0, cut));
    folder.files.push(number);
    return folder;
  });
  return {root, known, of};
}

/** The rows of the tree that can be seen: `{folder}` or `{file}`, with level, place among its siblings, marks. */
export function rowsOf(spine, marks, wanted) {
  const marked = new Set();
  for (const path of marks.keys()) for (let f = spine.folders.of[path]; f; f = f.parent) marked.add(f);
  const words = wanted.filter.toLowerCase();
  const narrowed = words || wanted.changedOnly;
  const shows = (file) => (spine.files.entries[file] || marks.has(file)) && (!wanted.changedOnly || marks.has(file)) &&
    (!words || spine.paths[file].toLowerCase().includes(words));
  const holding = narrowed ? holders(spine, shows) : null;
  const rows = [];
  const walk = (folder) => {
    const folders = folder.folders.filter((f) => (narrowed ? holding.has(f) : f.present || marked.has(f)));
    const files = folder.files.filter(shows);
    const size = folders.length + files.length;
    folders.forEach((f, n) => {
      const open = narrowed ? true : wanted.open.has(f.path);
      rows.push({folder: f, level: folder.level + 1, place: n + 1, size, open, marked: marked.has(f)});
      if (open) walk(f);
    });
    files.forEach((file, n) => rows.push({file, level: folder.level + 1, place: folders.length + n + 1, size, mark: marks.get(file)}));
  };
  walk(spine.folders.root);
  return rows;
}

function holders(spine, shows) {
  const holding = new Set();
  spine.paths.forEach((_, file) => {
    if (shows(file)) for (let f = spine.folders.of[file]; f && !holding.has(f); f = f.parent) holding.add(f);
  });
  return holding;
}

function listOf(map, key) {
  if (!map.has(key)) map.set(key, []);
  return map.get(key);
}
