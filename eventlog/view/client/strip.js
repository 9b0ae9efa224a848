// The slider over turns, and the strip below it that shows where something happened.

import {el, oneLine, refill, svg} from './dom.js';
import {count} from './words.js';

const HEIGHT = 28;
// more sessions could not be told apart
const BORDERS_MAX = 400;
const WIDE = 100;

/** `{node, show(spine, seen, marked), stand(spine, turn)}`; `go(turn)` is called as the slider is moved. */
export function makeStrip(go) {
  const range = el('input', {type: 'range', min: 0, max: 0, step: 1, id: 'slider', 'aria-label': 'Turn', oninput: () => go(Number(range.value))});
  const drawing = el('div.strip', {'aria-hidden': 'true'});
  const show = (spine, seen, marked) => {
    range.max = String(Math.max(spine.turns.length - 1, 0));
    refill(drawing, draw(spine, seen, marked));
  };
  const stand = (spine, turn) => {
    range.value = String(turn);
    range.setAttribute('aria-valuetext', turnWords(spine, turn));
    drawing.querySelector('.now').setAttribute('d', `M${turn} 0V${HEIGHT}`);
  };
  return {node: el('div.slider', range, drawing), show, stand};
}

/** What the strip shows of one turn, in words. */
function turnWords(spine, turn) {
  const {title, errors, agent, undone_at: undone} = spine.turns[turn];
  return [`Turn ${turn + 1} of ${spine.turns.length}: ${oneLine(title || 'without a title', 120)}`, count(changesOf(spine, turn), 'file') + ' changed',
    errors && count(errors, 'error'), agent === 'git' && 'a commit', undone && 'taken back'].filter(Boolean).join(', ');
}

/** How many files a turn changed: those of the stop at its end. */
function changesOf(spine, turn) {
  const {start, end} = spine.ofTurn[turn];
  return end === null || end === start || spine.stops[end].base < 0 ? 0 : spine.changes[end].length;
}

/** Marks of each kind, one path each; `seen` and `marked` are turns, -1 for none. */
function draw(spine, seen, marked) {
  const size = spine.turns.length;
  const marks = {border: '', changes: '', errors: '', commits: '', undone: ''};
  spine.turns.forEach((turn, n) => {
    const changes = changesOf(spine, n);
    if (n && turn.session_id !== spine.turns[n - 1].session_id && size < BORDERS_MAX) marks.border += `M${n - 0.5} 0V${HEIGHT}`;
    if (changes) marks.changes += `M${n} ${HEIGHT - 8}v${-Math.min(3 + 4 * Math.log2(changes), HEIGHT - 9).toFixed(1)}`;
    if (turn.errors) marks.errors += `M${n} ${HEIGHT - 6}v5`;
    if (turn.agent === 'git') marks.commits += `M${n} ${HEIGHT - 3}v3`;
    if (turn.undone_at) marks.undone += `M${n - 0.3} ${HEIGHT - 7}h.6`;
  });
  if (seen >= 0) marks.seen = `M${seen + 0.5} 0V${HEIGHT}`;
  if (marked >= 0) marks.marked = `M${marked} 0V${HEIGHT}`;
  marks.now = 'M0 0';
  return svg('svg', {viewBox: `0 0 ${Math.max(size - 1, 1)} ${HEIGHT}`, preserveAspectRatio: 'none', 'data-wide': size > WIDE ? 'yes' : 'no'},
    Object.entries(marks).map(([kind, d]) => d && svg('path.' + kind, {d, 'vector-effect': 'non-scaling-stroke'})));
}
