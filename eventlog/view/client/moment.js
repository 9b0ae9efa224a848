// The head of the slider page: which turn this is, its two moments, how certain its files are, and what goes on.

import {el, oneLine, refill} from './dom.js';
import {ask} from './source.js';
import {commandBox} from './frame.js';
import {count, listed, time} from './words.js';
import {to} from './address.js';

const PLAY_MS = 700;

export class MomentHead {
  /** `go(turn, how)` goes to another moment. */
  constructor(page, position, go) {
    this.page = page;
    this.position = position;
    this.go = go;
    this.title = el('h1');
    this.facts = el('span.facts.dim');
    this.doubt = el('p.doubt');
    this.news = el('button.news', {onclick: () => go(position.last)});
    this.sides = ['Start', 'End'].map((name) => el('button', {'data-side': name.toLowerCase(), onclick: () => go(position.turn, {side: name.toLowerCase()})}, name));
    this.playButton = el('button', {onclick: () => this.play(), title: 'Play (space)', 'aria-label': 'Play', 'aria-pressed': 'false'}, '▷');
    this.about = el('div.about');
    const step = (by, sign, words) => el('button.step', {onclick: () => go(position.turn + by), 'aria-label': words}, sign);
    this.node = el('div.moment', step(-1, '◀', 'Turn before'), step(1, '▶', 'Next turn'), this.playButton, el('div.which', this.title, this.facts),
      el('div.sides', {role: 'group', 'aria-label': 'Which moment of the turn'}, this.sides), this.news, this.about);
  }

  /** `fresh`: how many turns came while the reader stood elsewhere. */
  show(fresh) {
    const {spine, turn, side, stop} = this.position;
    const {title, started_at: at, agent, person, errors, commit, undone_at: undone} = spine.turns[turn];
    refill(this.title, oneLine(title || 'Without a title', 140));
    const facts = listed(oneLine(agent || person || '', 40), errors && count(errors, 'error'),
      commit && (agent === 'git' ? 'commit ' : 'on ') + commit.slice(0, 10), undone && 'taken back');
    refill(this.facts, `${turn + 1} / ${spine.turns.length} · `, time(at), facts && ' · ' + facts);
    showWhere(this.doubt, doubtOf(stop));
    showWhere(this.news, fresh && count(fresh, 'new turn'));
    for (const button of this.sides) {
      button.setAttribute('aria-pressed', String(button.dataset.side === side));
      button.disabled = spine.ofTurn[turn][button.dataset.side] === null;
    }
  }

  /** Says what the spine lacks, and what came since the session was seen up to the turn `seen`; -1: never. */
  tellAbout(seen) {
    const {answer, last} = this.position;
    this.cut = answer.cut && el('p.doubt', oneLine(answer.cut, 300));
    this.since = seen >= 0 && last > seen && el('button', {onclick: () => this.go(seen + 1)}, count(last - seen, 'turn') + ' since you last saw it');
    this.tell();
    if (this.resume === undefined) this.askResume();
  }

  tell() {
    refill(this.about, this.cut, this.since, this.resume, this.compare);
  }

  async askResume() {
    const {session} = this.position;
    this.resume = null;
    if (!session) return;
    try {
      const {sessions: [found]} = await ask('sessions', {session}, this.page.signal);
      this.resume = found && found.resume && el('span.resume', el('span.dim', 'Go on with this conversation: '), commandBox(found.resume));
      this.tell();
    } catch {
      // The page is whole without it.
    }
  }

  /** Says which moment is marked, with a link that compares it with where the reader stands when it is followed. */
  tellMarked() {
    const {position} = this;
    const link = el('a.compare', {href: '#', onclick: () => link.setAttribute('href', to(['turn', position.marked + '..' + position.moment]))},
      `Compare ${position.marked} with this moment`);
    this.compare = position.marked && link;
    this.tell();
  }

  /** Goes on by itself, or rests. */
  play() {
    const isPlaying = this.playButton.getAttribute('aria-pressed') === 'true';
    this.showPlaying(!isPlaying);
    if (isPlaying) return this.page.later('play');
    if (this.position.turn === this.position.last) this.go(0);
    this.playOn();
  }

  playOn() {
    this.page.later('play', PLAY_MS, () => {
      if (this.position.turn >= this.position.last) return this.showPlaying(false);
      this.go(this.position.turn + 1);
      this.playOn();
    });
  }

  showPlaying(isPlaying) {
    this.playButton.setAttribute('aria-pressed', String(isPlaying));
    refill(this.playButton, isPlaying ? '❚❚' : '▷');
  }
}

function showWhere(node, words) {
  refill(node, words || null);
  node.hidden = !words;
}

function doubtOf(stop) {
  if (!stop) return 'The files of this turn are not known.';
  if (!stop.state || stop.state === 'exact') return '';
  return oneLine((stop.state === 'none' ? '' : stop.state + ': ') + (stop.why || 'not known exactly'), 300);
}
