// The slider over turns, and the strip below it that shows where something happened.

import {el, oneLine, refill, svg} from './dom.js';
import {count} from './words.js';

const HEIGHT = 28;

/** `{node, show(spine), stand(turn, words)}`; `go(turn)` is called as the slider is moved. */
export function makeStrip(go) {
  const range = el('input', {type: 'range', min: 0, max: 0, step: 1, id: 'slider', 'aria-label': 'Turn', oninput: () => go(Number(range.value))});
  const drawing = el('div.strip', {'aria-hidden': 'true'});
  const node = el('div.slider', range, drawing);
  const strip = {node, range};
  strip.show = (spine, seen, marked) => {
    range.max = String(Math.max(spine.turns.length - 1, 0));
    refill(drawing, draw(spine, seen, marked));
  };
  strip.stand = (turn, words) => {
    range.value = String(turn);
    range.setAttribute('aria-valuetext', words);
    const line = drawing.querySelector('.now');
    if (line) line.setAttribute('d', `M${turn} 0V${HEIGHT}`);
  };
  return strip;
}

/** What the strip shows of one turn, in words. */
export function turnWords(spine, turn) {
  const t = spine.turns[turn];
  return [`Turn ${turn + 1} of ${spine.turns.length}: ${oneLine(t.title || 'without a title', 120)}`, count(changesOf(spine, turn), 'file') + ' changed',
    t.errors ? count(t.errors, 'error') : '', t.agent === 'git' ? 'a commit' : '', t.undone_at ? 'taken back' : ''].filter(Boolean).join(', ');
}

/** How many files a turn changed: those of the stop at its end. */
export function changesOf(spine, turn) {
  const {start, end} = spine.ofTurn[turn];
  return end === null || end === start || spine.stops[end].base < 0 ? 0 : spine.changes[end].length;
}

function draw(spine, seen, marked) {
  const size = spine.turns.length;
  const bars = [];
  const errors = [];
  const commits = [];
  const borders = [];
  const undone = [];
  spine.turns.forEach((turn, n) => {
    const changes = changesOf(spine, n);
    if (changes) bars.push(`M${n} ${HEIGHT - 8}v${-Math.min(3 + 4 * Math.log2(changes), HEIGHT - 9).toFixed(1)}`);
    if (turn.errors) errors.push(`M${n} ${HEIGHT - 6}v5`);
    if (turn.agent === 'git') commits.push(`M${n} ${HEIGHT - 3}v3`);
    if (turn.undone_at) undone.push(`M${n - 0.3} ${HEIGHT - 7}h.6`);
    if (n && turn.session_id !== spine.turns[n - 1].session_id && size < 400) borders.push(`M${n - 0.5} 0V${HEIGHT}`);
  });
  const path = (name, parts) => (parts.length ? svg('path.' + name, {d: parts.join(''), 'vector-effect': 'non-scaling-stroke'}) : null);
  return svg('svg', {viewBox: `0 0 ${Math.max(size - 1, 1)} ${HEIGHT}`, preserveAspectRatio: 'none', 'data-wide': size > 100 ? 'yes' : 'no'},
    path('border', borders), path('changes', bars), path('errors', errors), path('commits', commits), path('undone', undone),
    seen === null ? null : path('seen', [`M${seen + 0.5} 0V${HEIGHT}`]), marked === null ? null : path('marked', [`M${marked} 0V${HEIGHT}`]),
    svg('path.now', {d: 'M0 0', 'vector-effect': 'non-scaling-stroke'}));
}
