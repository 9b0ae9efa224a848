// The slider page: the turns of a session or of the repository, and below them everything of one moment.

import {el, oneLine, refill} from './dom.js';
import {ask} from './source.js';
import {commandBox, complaint, nameCommand, namePage, say} from './frame.js';
import {makeSpine, marksAt, nextChange} from './spine.js';
import {changesOf, makeStrip, turnWords} from './strip.js';
import {makeTree} from './filetree.js';
import {contentOf, fileCommand, makeFilePane} from './filepane.js';
import {turnNodes} from './turnpane.js';
import {comparedFile} from './changes.js';
import {count, remember, remembered, shellWord, time} from './words.js';
import {readAddress, to, writeAddress} from './address.js';

const REST_MS = 60; // a step after rest is loaded at once, one of many after this
const NEIGHBOURS_MS = 150;
const ADDRESS_MS = 120;
const PLAY_MS = 700;
const PAGES_KEPT = 60;
const CHANGED_LISTED = 200;
const OPENED_AT_REST = 6;

/** The page of `/s/SESSION`, `/repo` and `/turn/NAME`. */
export async function sliderPage(page) {
  const at = await placeOf(page);
  const view = {...at, page, pages: new Map(), fileNumber: null, mode: 'text', line: null, marked: null, playing: 0, counts: new Map(), fresh: 0,
    timers: {}, loading: new AbortController(), lastStep: 0, loads: 0};
  build(view);
  page.until = at.answer.until;
  take(view, at.answer, at.turn, at.side);
  readFile(view, page.query);
  page.keys(keysOf(view));
  page.revisit = (address) => revisit(view, address);
  page.live = (event) => heardLive(view, event);
  page.leave = () => leave(view);
  await stand(view, view.turn, {side: view.side, address: false});
}

async function placeOf(page) {
  const [kind, name] = page.parts;
  if (kind !== 'turn') {
    const answer = await ask('spine', {session: kind === 's' ? name : null}, page.signal);
    return {answer, session: kind === 's' ? answer.session || name : null, turn: answer.turns.length - 1, side: 'end'};
  }
  const [turn, side] = name.split('@');
  const first = await ask('page', {turn}, page.signal);
  const session = page.query.get('in') === 'repo' ? null : first.session_id;
  const answer = await ask('spine', {session}, page.signal);
  const number = answer.turns.findIndex((t) => t.name === first.turn);
  if (number < 0) throw Object.assign(new Error('missing'), {what: 'The turn ' + first.turn + ' is not among the turns of this page.', next: null});
  return {answer, session, turn: number, side: side || 'end', first};
}

function build(view) {
  view.strip = makeStrip((turn) => stand(view, turn, {}));
  view.tree = makeTree((file) => openFile(view, file));
  view.pane = makeFilePane((mode, line) => changeMode(view, mode, line));
  view.title = el('h1');
  view.facts = el('span.facts.dim');
  view.certain = el('p.doubt', {hidden: true});
  view.news = el('button.news', {hidden: true, onclick: () => stand(view, view.spine.turns.length - 1, {})});
  view.sides = ['start', 'end'].map((side) => el('button', {onclick: () => stand(view, view.turn, {side}), 'data-side': side}, side === 'start' ? 'Start' : 'End'));
  view.play = el('button', {onclick: () => play(view), title: 'Play (space)', 'aria-label': 'Play', 'aria-pressed': 'false'}, '▷');
  view.about = el('div.about');
  view.overview = el('section.file.overview', {'aria-label': 'What the turn changed', tabindex: '0'});
  view.reading = el('section.turn', {'aria-label': 'Turn', tabindex: '0'});
  view.panes = el('div.panes', {'data-tab': 'turn'}, view.tree.node, view.overview, view.pane.node, view.reading);
  const step = (by, sign, words) => el('button.step', {onclick: () => stand(view, view.turn + by, {}), 'aria-label': words}, sign);
  const tab = (name, words) => el('button', {'data-tab': name, onclick: () => showTab(view, name)}, words);
  view.tabs = el('div.tabs', {role: 'group', 'aria-label': 'What is shown'}, tab('turn', 'Turn'), tab('files', 'Files'), tab('file', 'File'));
  refill(view.page.main, el('div.moment', step(-1, '◀', 'Turn before'), step(1, '▶', 'Next turn'), view.play, el('div.which', view.title, view.facts),
    el('div.sides', {role: 'group', 'aria-label': 'Which moment of the turn'}, view.sides), view.news, view.about), view.strip.node, view.certain, view.tabs, view.panes);
  showTab(view, 'turn');
}

/** Puts another spine under the page and stands where the reader stood. */
function take(view, answer, turn, side) {
  view.answer = answer;
  view.spine = makeSpine(answer);
  view.turn = Math.max(turn, 0);
  view.side = side;
  view.seenTurn = view.session ? answer.turns.findIndex((t) => t.name === remembered('seen-' + view.session)) : -1;
  view.strip.show(view.spine, view.seenTurn < 0 ? null : view.seenTurn, markedTurn(view));
  tellOfSession(view);
}

async function tellOfSession(view) {
  const parts = [];
  if (view.answer.cut) parts.push(el('p.doubt', oneLine(view.answer.cut, 300)));
  const behind_ = view.seenTurn >= 0 ? view.spine.turns.length - 1 - view.seenTurn : 0;
  const go = view.seenTurn + 1;
  if (behind_ > 0) parts.push(el('button', {onclick: () => stand(view, go, {})}, count(behind_, 'turn') + ' since you last saw it'));
  refill(view.about, parts);
  if (!view.session || view.resume !== undefined) return showResume(view);
  view.resume = null;
  try {
    const {sessions} = await ask('sessions', {q: view.session}, view.page.signal);
    view.resume = (sessions.find((s) => s.session_id === view.session) || {}).resume || null;
  } catch {
    return;
  }
  showResume(view);
}

function showResume(view) {
  if (view.resume) view.about.append(el('span.resume', el('span.dim', 'Go on with this conversation: '), commandBox(view.resume)));
}

/** Stands at a turn: the tree at once, the file and the turn as soon as they are there. */
async function stand(view, turn, {side = 'end', address = true, added = false}) {
  const {spine} = view;
  if (!spine.turns.length) return showNothing(view);
  view.turn = Math.min(Math.max(turn, 0), spine.turns.length - 1);
  const stops = spine.ofTurn[view.turn];
  view.side = side === 'start' && stops.start !== null ? 'start' : 'end';
  view.stop = stops[view.side];
  const hasStop = view.stop !== null;
  if (hasStop) spine.move(view.stop);
  view.marks = hasStop ? marksAt(spine, view.stop) : new Map();
  view.counts = new Map();
  if (view.turn === spine.turns.length - 1) view.fresh = 0;
  showMoment(view);
  showTree(view);
  if (address) soonWriteAddress(view, added);
  noteSeen(view);
  await soonLoad(view);
}

function showNothing(view) {
  refill(view.title, view.session ? 'No turn is recorded of this session' : 'No turn is recorded yet');
  refill(view.overview, el('p.empty', 'locus hooks install records what agents do from now on, locus import what they did before.'));
  view.pane.node.hidden = true;
  namePage('No turns', 'locus log', view.session ? 'Sessions' : 'Repository');
}

function showMoment(view) {
  const {spine, turn} = view;
  const t = spine.turns[turn];
  view.strip.stand(turn, turnWords(spine, turn));
  refill(view.title, oneLine(t.title || 'Without a title', 140));
  refill(view.facts, `${turn + 1} / ${spine.turns.length} · `, time(t.started_at), t.agent || t.person ? ' · ' + oneLine(t.agent || t.person, 40) : '',
    t.errors ? ' · ' + count(t.errors, 'error') : '', t.commit ? (t.agent === 'git' ? ' · commit ' : ' · on ') + t.commit.slice(0, 10) : '', t.undone_at ? ' · taken back' : '');
  const stop = view.stop === null ? null : spine.stops[view.stop];
  const doubt = !stop ? 'The files of this turn are not known.' : stop.state && stop.state !== 'exact' ? (stop.state === 'none' ? '' : stop.state + ': ') + (stop.why || 'not known exactly') : '';
  refill(view.certain, doubt ? oneLine(doubt, 300) : '');
  view.certain.hidden = !doubt;
  for (const button of view.sides) {
    button.setAttribute('aria-pressed', String(button.dataset.side === view.side));
    button.disabled = spine.ofTurn[turn][button.dataset.side] === null;
  }
  view.news.hidden = !view.fresh;
  refill(view.news, count(view.fresh, 'new turn'));
  const place = filePlace(view);
  const command = place ? fileCommand(place) : view.turn < spine.turns.length ? 'locus show ' + shellWord(t.name) : 'locus log';
  namePage(t.title || t.name, command, view.session ? 'Sessions' : 'Repository');
}

function showTree(view) {
  const stop = view.stop === null ? null : view.spine.stops[view.stop];
  const grey = !stop || stop.source === 'none' ? 'No tree is recorded of this moment; these are the files of the moment before.'
    : stop.source === 'partial' ? 'Only the files that tool calls name.' : '';
  view.tree.show({spine: view.spine, marks: view.marks, counts: view.counts, file: view.fileNumber, grey});
}

function soonLoad(view) {
  view.loading.abort();
  view.loading = new AbortController();
  clearTimeout(view.timers.load);
  clearTimeout(view.timers.neighbours);
  view.page.busy();
  const now = performance.now();
  const rested = now - view.lastStep > REST_MS;
  view.lastStep = now;
  if (rested) return load(view, view.loading.signal);
  return new Promise((done) => {
    view.timers.load = setTimeout(() => load(view, view.loading.signal).then(done), REST_MS);
  });
}

async function load(view, signal) {
  const work = ++view.loads;
  await Promise.all([loadTurn(view, signal), loadFile(view, signal)]);
  if (signal.aborted || work !== view.loads) return;
  view.page.done();
  view.timers.neighbours = setTimeout(() => neighbours(view, signal), NEIGHBOURS_MS);
}

async function loadTurn(view, signal) {
  const {name} = view.spine.turns[view.turn];
  try {
    const read = await pageOf(view, name, signal);
    if (signal.aborted) return;
    for (const change of read.blocks.flatMap((b) => b.changes || [])) addCounts(view.counts, change);
    refill(view.reading, turnNodes(read, scope(view)));
    view.reading.scrollTop = 0;
    if (view.counts.size) view.tree.list.show(view.tree.rows);
    if (view.fileNumber === null) showChanged(view, read);
  } catch (failure) {
    if (failure.name !== 'AbortError') refill(view.reading, complaint(failure));
  }
}

function addCounts(counts, change) {
  if (change.added === null) return;
  const [added, removed] = counts.get(change.path) || [0, 0];
  counts.set(change.path, [added + change.added, removed + (change.removed || 0)]);
}

async function pageOf(view, name, signal) {
  const kept = view.pages.get(name);
  if (kept) return kept;
  const read = await ask('page', {turn: name}, signal);
  view.pages.set(name, read);
  if (view.pages.size > PAGES_KEPT) view.pages.delete(view.pages.keys().next().value);
  return read;
}

/** Where no file is chosen: what the turn changed. */
function showChanged(view) {
  view.pane.node.hidden = true;
  view.overview.hidden = false;
  const marks = [...view.marks].slice(0, CHANGED_LISTED);
  const lines = marks.map(([file, mark]) => {
    const path = view.spine.paths[file];
    const [added, removed] = view.counts.get(path) || [null, null];
    const change = {path, old_path: oldPath(view, mark), operation: mark.operation, added, removed, reason: mark.between ? 'changed between turns' : null};
    const {before, after} = beforeOf(view, mark);
    return comparedFile(change, [before, after || moment(view)], false, view.loading.signal, scope(view));
  });
  view.changed = lines.slice(0, OPENED_AT_REST);
  const more = view.marks.size - marks.length;
  refill(view.overview, el('h2', view.marks.size ? count(view.marks.size, 'file') + ' changed' : 'This turn changed no file'), lines,
    more > 0 ? el('p.dim', 'and ' + count(more, 'more') + ': “changed only” above the tree lists all') : null,
    view.marks.size ? null : el('p.dim', 'Choose a file of the tree to see it as it was at this moment.'));
}

async function loadFile(view, signal) {
  const place = filePlace(view, signal);
  view.pane.node.hidden = !place;
  view.overview.hidden = Boolean(place);
  if (place) await view.pane.show(place);
}

function oldPath(view, mark) {
  return mark && mark.operation === 'R' && mark.old !== null ? view.spine.paths[mark.old] : null;
}

/** Everything that the file pane needs of this moment; null where no file is chosen. */
function filePlace(view, signal) {
  if (view.fileNumber === null && !view.missingPath) return null;
  const {spine, fileNumber: file} = view;
  const entry = file === null ? null : spine.files.entries[file];
  const mark = file === null ? null : view.marks.get(file);
  const hash = entry && entry[1] !== null ? entry[1] : null;
  return {
    path: file === null ? view.missingPath : spine.paths[file], entry, hash: hash === null ? null : spine.hashes[hash], moment: moment(view), mode: view.mode, line: view.line,
    withheld: hash !== null && spine.withheld ? spine.withheld[hash] : null, reason: entry && entry[3] === 's' ? (spine.reasons || {})[file] || 'the reason is not known' : null,
    deleted: Boolean(mark && mark.operation === 'D'), old: oldPath(view, mark),
    query: scope(view), signal, ...beforeOf(view, mark),
  };
}

/** The moment to compare with: the marked one, else the start of the turn, or the end of the one before. */
function beforeOf(view, mark) {
  if (view.marked && view.marked !== moment(view)) return {before: view.marked, beforeWords: 'Compared with the marked moment ' + view.marked + ' (c marks another, or none)'};
  const stops = view.spine.ofTurn[view.turn];
  const earlier = view.turn > 0 ? view.spine.turns[view.turn - 1].name : null;
  const {name} = view.spine.turns[view.turn];
  if (mark && mark.between && view.side === 'end') return {before: earlier, after: name + '@start', beforeWords: 'Changed between the turn before and this one'};
  if (view.side === 'start') return {before: earlier, beforeWords: 'Changed between the turn before and this one'};
  if (stops.start !== null && stops.start !== stops.end) return {before: name + '@start', beforeWords: 'Changed by this turn'};
  return {before: earlier, beforeWords: 'Compared with the end of the turn before'};
}

function openFile(view, file) {
  view.fileNumber = file;
  view.missingPath = null;
  view.line = null;
  if (view.marks.has(file) && view.mode === 'text') view.mode = 'change';
  else if (!view.marks.has(file) && view.mode === 'change') view.mode = 'text';
  showTab(view, 'file');
  reload(view, true);
}

function changeMode(view, mode, line) {
  view.mode = mode;
  view.line = line || null;
  reload(view, false);
}

function reload(view, added) {
  showMoment(view);
  showTree(view);
  writeAddress(addressOf(view), added);
  view.lastStep = 0;
  soonLoad(view);
}

function readFile(view, query) {
  const path = query.get('file');
  view.fileNumber = path === null ? null : view.spine.number.get(path) ?? null;
  view.missingPath = path !== null && view.fileNumber === null ? path : null;
  view.mode = ['text', 'change', 'blame', 'history'].includes(query.get('mode')) ? query.get('mode') : 'text';
  view.line = Number(query.get('line')) || null;
  if (view.fileNumber !== null) {
    const stop = view.spine.ofTurn[view.turn].end;
    view.tree.show({spine: view.spine, marks: stop === null ? new Map() : marksAt(view.spine, stop), counts: view.counts, file: view.fileNumber, grey: ''});
    view.tree.reach(view.fileNumber);
    showTab(view, 'file');
  }
}

function showTab(view, name) {
  view.panes.dataset.tab = name;
  for (const button of view.tabs.children) button.setAttribute('aria-pressed', String(button.dataset.tab === name));
}

function moment(view) {
  return view.spine.turns[view.turn].name + (view.side === 'start' ? '@start' : '');
}

function scope(view) {
  return view.session ? {} : {in: 'repo'};
}

function addressOf(view) {
  const place = filePlace(view);
  return to(['turn', moment(view)], {file: place && place.path, line: place && view.line, mode: place && view.mode !== 'text' ? view.mode : '', ...scope(view)});
}

function soonWriteAddress(view, added) {
  clearTimeout(view.timers.address);
  const write = () => writeAddress(addressOf(view), added);
  if (added) write();
  else view.timers.address = setTimeout(write, ADDRESS_MS);
}

async function neighbours(view, signal) {
  if (view.fileNumber === null) for (const changed of view.changed || []) changed.open = true;
  for (const turn of [view.turn + 1, view.turn - 1]) {
    const t = view.spine.turns[turn];
    if (!t || signal.aborted) continue;
    try {
      await pageOf(view, t.name, signal);
      await neighbourFile(view, turn, signal);
    } catch {
      return; // it is asked for again when somebody goes there
    }
  }
}

async function neighbourFile(view, turn, signal) {
  if (view.fileNumber === null || view.mode !== 'text') return;
  const stop = view.spine.ofTurn[turn].end;
  const change = stop ? view.spine.changes[stop].find((c) => c[0] === view.fileNumber) : null;
  if (change && change[1] !== null) await contentOf(view.spine.hashes[change[1]], view.spine.paths[view.fileNumber], signal);
}

function keysOf(view) {
  const by = (n) => () => stand(view, view.turn + n, {});
  const jump = (direction, fits) => () => {
    for (let turn = view.turn + direction; view.spine.turns[turn]; turn += direction) if (fits(view.spine.turns[turn])) return stand(view, turn, {});
    return say('There is no other.');
  };
  const ofFile = (direction) => () => {
    const turn = view.fileNumber === null ? null : nextChange(view.spine, view.fileNumber, view.turn, direction);
    if (turn === null) say(view.fileNumber === null ? 'Choose a file first.' : 'No other turn of this page changed the file.');
    else stand(view, turn, {});
  };
  const prompted = (turn) => turn.agent !== 'git';
  return {
    j: ['next turn', by(1)], k: ['turn before', by(-1)], ArrowRight: ['next turn', by(1)], ArrowLeft: ['turn before', by(-1)],
    J: ['next turn that changed this file', ofFile(1)], K: ['turn before that changed this file', ofFile(-1)],
    n: ['next prompt', jump(1, prompted)], p: ['prompt before', jump(-1, prompted)],
    e: ['next error', jump(1, (t) => t.errors)], E: ['error before', jump(-1, (t) => t.errors)],
    g: ['first turn', () => stand(view, 0, {})], G: ['last turn', () => stand(view, view.spine.turns.length - 1, {})],
    ' ': ['play', () => play(view)], t: ['filter files', () => focusFilter(view)],
    d: ['change or text', () => changeMode(view, view.mode === 'change' ? 'text' : 'change')],
    c: ['mark as the side to compare', () => mark(view)], x: ['fold results', () => fold(view)],
    Escape: ['close the file', () => closeFile(view)],
  };
}

function focusFilter(view) {
  showTab(view, 'files');
  view.tree.filter.focus();
}

function closeFile(view) {
  if (view.fileNumber === null && !view.missingPath) return;
  view.fileNumber = null;
  view.missingPath = null;
  showTab(view, 'turn');
  reload(view, true);
}

function fold(view) {
  const calls = [...view.reading.querySelectorAll('details')];
  const open = !calls.some((d) => d.open);
  for (const call of calls) call.open = open;
}

function mark(view) {
  view.marked = view.marked === moment(view) ? null : moment(view);
  const nodes = view.marked ? ['Marked ', el('a', {href: to(['turn', view.marked + '..' + moment(view)])}, view.marked), '. Go to another moment: its changes are shown against this one.'] : 'No moment is marked.';
  say(nodes);
  view.strip.show(view.spine, view.seenTurn < 0 ? null : view.seenTurn, markedTurn(view));
  showMarked(view);
  reload(view, false);
}

function showMarked(view) {
  const old = view.about.querySelector('.compare');
  if (old) old.remove();
  if (!view.marked) return;
  const link = el('a.compare', {href: '#', onclick: (e) => {
    link.setAttribute('href', to(['turn', view.marked + '..' + moment(view)]));
    if (view.marked === moment(view)) {
      e.preventDefault();
      e.stopPropagation();
    }
  }}, 'Compare ' + view.marked + ' with this moment');
  view.about.append(link);
}

function markedTurn(view) {
  const turn = view.marked ? view.spine.turns.findIndex((t) => t.name === view.marked.split('@')[0]) : -1;
  return turn < 0 ? null : turn;
}

function play(view) {
  const playing = view.timers.play;
  clearInterval(playing);
  view.timers.play = 0;
  const begins = !playing;
  if (begins) {
    if (view.turn === view.spine.turns.length - 1) stand(view, 0, {});
    view.timers.play = setInterval(() => {
      if (view.turn >= view.spine.turns.length - 1) play(view);
      else stand(view, view.turn + 1, {});
    }, PLAY_MS);
  }
  view.play.setAttribute('aria-pressed', String(begins));
  refill(view.play, begins ? '❚❚' : '▷');
}

function noteSeen(view) {
  if (!view.session) return;
  const seen = view.spine.turns.findIndex((t) => t.name === remembered('seen-' + view.session));
  if (view.turn > seen) remember('seen-' + view.session, view.spine.turns[view.turn].name);
}

async function revisit(view, address) {
  const {parts, query} = address;
  if (parts[0] !== 'turn' || (query.get('in') === 'repo') !== (view.session === null)) return false;
  const [name, side] = (parts[1] || '').split('@');
  const turn = view.spine.turns.findIndex((t) => t.name === name);
  if (turn < 0) return false;
  view.turn = turn;
  readFile(view, query);
  if (view.fileNumber === null) showTab(view, 'turn');
  view.lastStep = 0;
  await stand(view, turn, {side, address: false});
  return true;
}

/** A live event: the spine grows; who stands at its end moves on, who stands elsewhere stays. */
function heardLive(view, event) {
  if (view.session && event.session && event.session !== view.session) return;
  clearTimeout(view.timers.live);
  view.timers.live = setTimeout(() => grow(view), 150);
}

async function grow(view) {
  let answer;
  try {
    answer = await ask('spine', {session: view.session}, view.page.signal);
  } catch {
    return; // the next event asks again
  }
  const atEnd = view.turn >= view.spine.turns.length - 1;
  const name = view.spine.turns.length ? view.spine.turns[view.turn].name : null;
  const added = answer.turns.length - view.spine.turns.length;
  const stayed = answer.turns.findIndex((t) => t.name === name);
  const path = view.fileNumber === null ? view.missingPath : view.spine.paths[view.fileNumber];
  const seenTurn = view.seenTurn;
  const last = answer.turns.length - 1;
  view.pages.delete(name);
  if (last >= 0) view.pages.delete(answer.turns[last].name);
  view.seenTurn = seenTurn;
  take(view, answer, atEnd || stayed < 0 ? last : stayed, view.side);
  view.fileNumber = path ? view.spine.number.get(path) ?? null : null;
  view.missingPath = path && view.fileNumber === null ? path : null;
  if (!atEnd) view.fresh += Math.max(added, 0);
  const {scrollTop} = view.reading;
  await stand(view, view.turn, {side: view.side, address: atEnd && added > 0});
  if (!added || !atEnd) view.reading.scrollTop = scrollTop;
}

function leave(view) {
  view.loading.abort();
  clearInterval(view.timers.play);
  for (const timer of Object.values(view.timers)) clearTimeout(timer);
}
