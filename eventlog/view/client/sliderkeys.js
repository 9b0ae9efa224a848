// What the keys of the slider page and the button “back” do.

import {el} from './dom.js';
import {pathsOf} from './spine.js';
import {to} from './address.js';

const say = async (words) => (await import('./tools.js')).say(words);

export function sliderKeys(slider) {
  const {position} = slider;
  const by = (n) => () => slider.stand(position.turn + n);
  /** To the nearest turn that fits, in a direction. */
  const jump = (direction, fits) => () => {
    const {turns} = position.spine;
    let turn = position.turn + direction;
    while (turns[turn] && !fits(turns[turn])) turn += direction;
    if (turns[turn]) slider.stand(turn);
    else say('There is no other.');
  };
  const ofFile = (direction) => () => {
    if (position.file === undefined) return say('Choose a file first.');
    const turn = nextChange(position, direction);
    if (turn === null) say('No other turn of this page changed the file.');
    else slider.stand(turn);
  };
  const isPrompt = (turn) => turn.agent !== 'git';
  const hasErrors = (turn) => turn.errors;
  return {
    j: ['next turn', by(1)], k: ['turn before', by(-1)], ArrowRight: ['next turn', by(1)], ArrowLeft: ['turn before', by(-1)],
    J: ['next turn that changed this file', ofFile(1)], K: ['turn before that changed this file', ofFile(-1)],
    n: ['next prompt', jump(1, isPrompt)], p: ['prompt before', jump(-1, isPrompt)],
    e: ['next error', jump(1, hasErrors)], E: ['error before', jump(-1, hasErrors)],
    g: ['first turn', () => slider.stand(0)], G: ['last turn', () => slider.stand(position.last)],
    ' ': ['play', () => slider.play()], t: ['filter files', () => focusFilter(slider)],
    d: ['change or text', () => slider.choose(position.path, position.mode === 'change' ? 'text' : 'change')],
    c: ['mark as the side to compare', () => mark(slider)], x: ['fold results', () => fold(slider.reading)],
    Escape: ['close the file', () => slider.closeFile()],
  };
}

function focusFilter(slider) {
  slider.showTab('files');
  slider.tree.filter.focus();
}

function fold(reading) {
  const calls = [...reading.querySelectorAll('details')];
  const open = !calls.some((call) => call.open);
  for (const call of calls) call.open = open;
}

/** Marks the moment as the side to compare with, or takes the mark away. */
function mark(slider) {
  const {position, moment} = slider;
  position.marked = position.marked === position.moment ? null : position.moment;
  say(position.marked ? `Marked ${position.marked}. Go to another moment: its changes are shown against this one.` : 'No moment is marked.');
  const link = el('a.compare', {href: '#', onclick: () => link.setAttribute('href', to(['turn', position.marked + '..' + position.moment]))},
    `Compare ${position.marked} with this moment`);
  moment.compare = position.marked && link;
  moment.tell();
  slider.drawStrip();
  slider.choose(position.path, position.mode, position.line);
}

/** The nearest turn after (+1) or before (-1) this one that changed the chosen file; null where there is none. */
function nextChange({spine, file, turn}, direction) {
  const changes = (stop) => stop !== null && spine.stops[stop].base >= 0 && spine.changes[stop].some((change) => pathsOf(change).includes(file));
  for (let n = turn + direction; spine.turns[n]; n += direction) {
    if (changes(spine.ofTurn[n].start) || changes(spine.ofTurn[n].end)) return n;
  }
  return null;
}

/** Goes to another address of the same page; gives whether it is one. */
export async function revisit(slider, {parts: [kind, moment], query}) {
  const {position, page} = slider;
  const [name, side] = (moment || '').split('@');
  const turn = position.find(name);
  if (kind !== 'turn' || turn < 0 || (query.get('in') === 'repo') !== (position.session === null)) return false;
  page.later('address');
  position.chooseBy(query);
  slider.showTab(position.path === null ? 'turn' : 'file');
  slider.steppedAt = 0;
  await slider.stand(turn, {side, address: false});
  return true;
}
