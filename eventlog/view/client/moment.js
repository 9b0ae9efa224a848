// The head of the slider page: which turn this is, its two moments, how certain its files are, and what goes on.

import {el, makeChoice, oneLine, refill, showWords} from './dom.js';
import {commandBox} from './frame.js';
import {count, listed, time} from './words.js';

export class MomentHead {
  constructor(slider) {
    const {position} = slider;
    const go = (turn, how) => slider.stand(turn, how);
    Object.assign(this, {slider, position});
    this.title = el('h1');
    this.facts = el('span.facts.dim');
    this.doubt = el('p.doubt');
    this.news = el('button.news', {onclick: () => go(position.last)});
    this.sides = makeChoice('side', 'Which moment of the turn', {start: 'Start', end: 'End'}, (side) => go(position.turn, {side}));
    this.playButton = el('button', {onclick: () => slider.play(), title: 'Play (space)', 'aria-label': 'Play', 'aria-pressed': 'false'}, '▷');
    this.about = el('div.about');
    const step = (by, sign, words) => el('button.step', {onclick: () => go(position.turn + by), 'aria-label': words}, sign);
    this.node = el('div.moment', step(-1, '◀', 'Turn before'), step(1, '▶', 'Next turn'), this.playButton, el('div.which', this.title, this.facts),
      this.sides.node, this.news, this.about);
  }

  /** `fresh`: how many turns came while the reader stood elsewhere. */
  show(fresh) {
    const {spine, turn, side, stop} = this.position;
    const {title, started_at: at, agent, person, errors, commit, undone_at: undone} = spine.turns[turn];
    refill(this.title, oneLine(title || 'Without a title', 140));
    const facts = listed(oneLine(agent || person || '', 40), errors && count(errors, 'error'),
      commit && (agent === 'git' ? 'commit ' : 'on ') + commit.slice(0, 10), undone && 'taken back');
    refill(this.facts, `${turn + 1} / ${spine.turns.length} · `, time(at), facts && ' · ' + facts);
    showWords(this.doubt, doubtOf(stop));
    showWords(this.news, fresh && count(fresh, 'new turn'));
    this.sides.press(side);
    for (const button of this.sides.buttons) button.disabled = spine.ofTurn[turn][button.dataset.side] === null;
  }

  /** Says what the spine lacks, what came since the session was seen up to the turn `seen`, -1: never, and how the conversation goes on. */
  tellAbout(seen) {
    const {answer, last} = this.position;
    this.resume = answer.resume && el('span.resume', el('span.dim', 'Resume: '), commandBox(answer.resume));
    this.cut = answer.cut && el('p.doubt', oneLine(answer.cut, 300));
    this.since = seen >= 0 && last > seen && el('button', {onclick: () => this.slider.stand(seen + 1)}, count(last - seen, 'turn') + ' since you last saw it');
    this.tell();
  }

  tell() {
    refill(this.about, this.cut, this.since, this.resume, this.compare);
  }
}

function doubtOf(stop) {
  if (!stop) return 'The files of this turn are not known.';
  if (!stop.state || stop.state === 'exact') return '';
  return oneLine((stop.state === 'none' ? '' : stop.state + ': ') + (stop.why || 'not known exactly'), 300);
}
