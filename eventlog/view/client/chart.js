// Charts as drawings, without styles of their own: colours come from classes of the page.

import {el, svg} from './dom.js';

const [WIDTH, HEIGHT, LEFT, TOP, BOTTOM] = [540, 190, 46, 10, 22];
const NAMES_MAX = 6;
const DAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];

/** A chart with a column for each `{name, short, size}`; `words` writes a size. */
export function columnChart(what, words, bars) {
  const scale = roundScale(Math.max(...bars.map((b) => b.size), 0));
  const top = scale.at(-1) || 1;
  const height = HEIGHT - TOP - BOTTOM;
  const step = (WIDTH - LEFT) / Math.max(bars.length, 1);
  const width = Math.min(step * 0.72, 36);
  const y = (size) => TOP + height * (1 - size / top);
  const every = Math.max(Math.ceil(bars.length / NAMES_MAX), 1);
  const column = ({name, size}, n) => {
    const tall = size ? Math.max(height * size / top, 1.5) : 0;
    return svg('g', svg('rect.hover', {x: LEFT + step * n, y: TOP, width: step, height}),
      svg('rect.bar', {x: LEFT + step * n + (step - width) / 2, y: TOP + height - tall, width, height: tall, rx: Math.min(2, width / 2)}),
      svg('title', name + ': ' + words(size)));
  };
  return svg('svg.chart', {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': what},
    scale.map((size) => [svg('line.grid', {x1: LEFT, x2: WIDTH, y1: y(size), y2: y(size)}),
      svg('text.tick', {x: LEFT - 8, y: y(size) + 3.5, 'text-anchor': 'end'}, words(size).replace(/\.00$/, ''))]),
    bars.map(column),
    bars.map(({short}, n) => (n % every ? null : svg('text.tick', {x: LEFT + step * (n + 0.5), y: HEIGHT - 5, 'text-anchor': 'middle'}, short))));
}

function roundScale(largest) {
  if (largest <= 0) return [0];
  const power = 10 ** Math.floor(Math.log10(largest / 3));
  const step = [1, 2, 2.5, 5, 10].map((n) => power * n).find((s) => s * 4 >= largest);
  return Array.from({length: Math.ceil(largest / step - 1e-9) + 1}, (_, n) => step * n);
}

/** A thin bar in a cell: a part of its width, 0 to 1. */
export function shareBar(part) {
  return svg('svg.share', {viewBox: '0 0 100 6', preserveAspectRatio: 'none', 'aria-hidden': 'true'},
    svg('rect.track', {width: 100, height: 6}), svg('rect.bar', {width: Math.max(100 * Math.min(part, 1), part ? 0.8 : 0), height: 6}));
}

/** Seven days by 24 hours; `hours[day][hour]` are numbers. */
export function hourMap(hours, words) {
  const most = Math.max(...hours.flat(), 1);
  const cell = (n, day, hour) => svg('rect.cell.heat' + Math.ceil(4 * Math.sqrt(n / most)), {x: 40 + hour * 20, y: 18 + day * 20, width: 18, height: 18, rx: 3},
    svg('title', `${DAYS[day]} ${hour}:00: ${words(n)}`));
  return el('div.wide', {tabindex: '0', role: 'region', 'aria-label': 'Days and hours'}, svg('svg.hours', {viewBox: '0 0 520 160', role: 'img', 'aria-label': hourWords(hours, words)},
    DAYS.map((day, n) => svg('text.tick', {x: 0, y: 32 + n * 20}, day)),
    [0, 6, 12, 18, 23].map((hour) => svg('text.tick', {x: 49 + hour * 20, y: 12, 'text-anchor': 'middle'}, hour)),
    hours.map((row, day) => row.map((n, hour) => cell(n, day, hour)))));
}

function hourWords(hours, words) {
  const most = Math.max(...hours.flat());
  const day = hours.findIndex((row) => row.includes(most));
  return most ? `Days and hours; most on ${DAYS[day]} at ${hours[day].indexOf(most)}:00, ${words(most)}` : 'Days and hours: nothing yet';
}
