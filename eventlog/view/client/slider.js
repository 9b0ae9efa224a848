// The slider page: the turns of a session or of the repository, and below them everything of one moment.

import {el, makeChoice, refill} from './dom.js';
import {ask} from './source.js';
import {complain, namePage} from './frame.js';
import {Position} from './position.js';
import {MomentHead} from './moment.js';
import {makeStrip} from './strip.js';
import {makeTree} from './filetree.js';
import {turnNodes} from './turnpane.js';
import {makeMemory} from './memory.js';
import {fileCommand, shellWord} from './commands.js';
import {writeAddress} from './address.js';

// a step after rest is loaded at once, one of many after this
const REST_MS = 60;
const NEIGHBOURS_MS = 150;
const ADDRESS_MS = 120;
const LIVE_MS = 150;
const PAGES_KEPT = 60;
const OPENED_AT_REST = 6;
const KEYS = [...'jkJKnpeEgG tdcx', 'ArrowRight', 'ArrowLeft', 'Escape'];
const TREE_WORDS = {none: 'No tree is recorded of this moment; these are the files of the moment before.', partial: 'Only the files that tool calls name.'};

/** The page of `/s/SESSION`, `/repo` and `/turn/NAME`. */
export async function show(page) {
  const {session, answer, name, side} = await placeOf(page);
  const slider = new Slider(page, session);
  slider.take(answer);
  slider.position.chooseBy(page.query);
  const turn = name === null ? slider.position.last : slider.position.find(name);
  if (turn < 0 && name) throw {what: 'The turn ' + name + ' is not among the turns of this page.'};
  slider.showTab(slider.position.path === null ? 'turn' : 'file');
  page.keys(KEYS, async () => (await import('./sliderkeys.js')).sliderKeys(slider));
  page.revisit = async (address) => (await import('./sliderkeys.js')).revisit(slider, address);
  page.live = () => page.later('live', LIVE_MS, async () => (await import('./growth.js')).grow(slider));
  await slider.stand(turn, {side, address: false});
}

/** What the address asks for; `name` is null for the last turn. */
async function placeOf({parts: [kind, of], query, signal}) {
  let [session, name, side] = [kind === 's' ? of : null, null, 'end'];
  if (kind === 'turn') {
    const read = await ask('page', {turn: of.split('@')[0]}, signal);
    [session, name, side] = [query.get('in') === 'repo' ? null : read.session_id, read.turn, of.split('@')[1]];
  }
  const answer = await ask('spine', {session}, signal);
  return {session: answer.session, answer, name, side};
}

class Slider {
  constructor(page, session) {
    this.page = page;
    this.position = new Position(session);
    this.pages = makeMemory(PAGES_KEPT);
    this.counts = new Map();
    this.fresh = 0;
    this.steppedAt = 0;
    this.strip = makeStrip((turn) => this.stand(turn));
    this.moment = new MomentHead(this);
    this.tree = makeTree((path) => this.openFile(path));
    this.overview = el('section.file.overview', {'aria-label': 'What the turn changed', tabindex: '0'});
    this.reading = el('section.turn', {'aria-label': 'Turn', tabindex: '0'});
    this.panes = el('div.panes', this.tree.node, this.overview, this.reading);
    this.tabs = makeChoice('tab', 'What is shown', {turn: 'Turn', files: 'Files', file: 'File'}, (name) => this.showTab(name));
    refill(page.main, this.moment.node, this.strip.node, this.moment.doubt, this.tabs.node, this.panes);
  }

  showTab(name) {
    this.panes.dataset.tab = name;
    this.tabs.press(name);
  }

  /** Puts a spine under the page. */
  take(answer) {
    const {position} = this;
    position.take(answer);
    this.page.until = answer.until;
    this.seen = position.seen;
    this.moment.tellAbout(this.seen);
    this.drawStrip();
  }

  drawStrip() {
    const {position} = this;
    this.strip.show(position.spine, this.seen, position.find((position.marked || '').split('@')[0]));
  }

  /** Stands at a turn: the tree at once, the file and the turn as soon as they are there. */
  async stand(turn, {side = 'end', address = true} = {}) {
    const {position} = this;
    position.stand(turn, side);
    if (position.last < 0) return (await import('./overview.js')).showNothing(this);
    if (position.turn === position.last) this.fresh = 0;
    this.counts = new Map();
    this.draw();
    if (address) this.page.later('address', ADDRESS_MS, () => writeAddress(position.address, false));
    position.see();
    await this.load();
  }

  /** Everything of the moment that is known without asking. */
  draw() {
    const {position} = this;
    const {spine, turn, stop, marks} = position;
    this.strip.stand(spine, turn);
    this.moment.show(this.fresh);
    // where there is nothing to show of files the turn has their place
    this.panes.className = 'panes' + (position.path || marks.size ? '' : spine.paths.length ? ' reading' : ' reading alone');
    this.tree.show({spine, marks, counts: this.counts, path: position.path, grey: TREE_WORDS[stop ? stop.source : 'none']});
    const place = position.filePlace();
    namePage(spine.turns[turn].title || position.name, place ? fileCommand(place) : 'locus show ' + shellWord(position.name), position.home);
  }

  /** Chooses another file, or how it is shown; a file is a step that the back button takes back. */
  choose(path, mode, line = null) {
    const isOther = path !== this.position.path;
    this.position.choose(path, mode, line);
    this.draw();
    this.page.later('address');
    writeAddress(this.position.address, isOther);
    this.steppedAt = 0;
    this.load();
  }

  openFile(path) {
    const {mode, marks, spine} = this.position;
    const isChanged = marks.has(spine.number.get(path));
    this.showTab('file');
    this.choose(path, isChanged && mode === 'text' ? 'change' : !isChanged && mode === 'change' ? 'text' : mode);
  }

  async play() {
    (await import('./play.js')).play(this, this.moment.playButton);
  }

  closeFile() {
    if (this.position.path === null) return;
    this.showTab('turn');
    this.choose(null);
  }

  // -- what must be asked for: the newest moment counts ------------------------------------------

  load() {
    const {page} = this;
    const signal = page.newest();
    page.busy();
    page.later('neighbours');
    const isAtRest = performance.now() - this.steppedAt > REST_MS;
    this.steppedAt = performance.now();
    const work = async () => {
      await Promise.all([this.loadTurn(signal), this.loadFile(signal)]);
      if (signal.aborted) return;
      page.done();
      page.later('neighbours', NEIGHBOURS_MS, () => this.loadNeighbours(signal));
    };
    page.later('load');
    return isAtRest ? work() : new Promise((done) => page.later('load', REST_MS, () => work().then(done)));
  }

  turnPage(name, signal) {
    return this.pages.get(name, () => ask('page', {turn: name}, signal));
  }

  async loadTurn(signal) {
    const {position, counts} = this;
    try {
      const read = await this.turnPage(position.name, signal);
      if (signal.aborted) return;
      counts.clear();
      for (const {path, added, removed} of read.blocks.flatMap((block) => block.changes || [])) {
        const [before, gone] = counts.get(path) || [0, 0];
        if (added !== null) counts.set(path, [before + added, gone + (removed || 0)]);
      }
      refill(this.reading, turnNodes(read, position.query));
      this.reading.scrollTop = 0;
      // what a link leads to within the turn
      const wanted = document.getElementById('e' + position.event);
      if (wanted) {
        wanted.open = true;
        wanted.scrollIntoView();
      }
      if (counts.size) this.tree.redraw();
      if (position.path !== null) return;
      const {showOverview} = await import('./overview.js');
      if (!signal.aborted) showOverview(this, signal);
    } catch (failure) {
      complain(this.reading, failure);
    }
  }

  async loadFile(signal) {
    const place = this.position.filePlace(signal);
    if (place && !this.pane) await this.makePane();
    if (this.pane) this.pane.node.hidden = !place;
    this.overview.hidden = Boolean(place);
    if (place && !signal.aborted) await this.pane.show(place);
  }

  async makePane() {
    const {makeFilePane} = await import('./filepane.js');
    if (this.pane) return;
    this.pane = makeFilePane((mode, line) => this.choose(this.position.path, mode, line));
    this.overview.after(this.pane.node);
  }

  /** Lines of what the turn changed, and the turns beside it, before somebody goes there. */
  async loadNeighbours(signal) {
    const {spine, turn, path, file, mode} = this.position;
    if (path === null) for (const compared of [...this.overview.querySelectorAll('details.compared')].slice(0, OPENED_AT_REST)) compared.load();
    for (const beside of [turn + 1, turn - 1].filter((n) => spine.turns[n])) {
      try {
        await this.turnPage(spine.turns[beside].name, signal);
        const change = path !== null && mode === 'text' && (spine.changes[spine.ofTurn[beside].end] || []).find(([changed]) => changed === file);
        if (change && change[1] !== null) await this.pane.askAhead(spine.hashes[change[1]], path, signal);
      } catch {
        // it is asked for again when somebody goes there
        return;
      }
    }
  }
}
