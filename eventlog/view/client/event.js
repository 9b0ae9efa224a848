// One event, with everything that is recorded of it.

import {el, oneLine, refill, spell} from './dom.js';
import {ask} from './source.js';
import {namePage} from './frame.js';
import {bytes, time} from './words.js';
import {shellWord} from './commands.js';
import {to} from './address.js';

export async function show(page) {
  const answer = await ask('event', {id: page.parts[1]}, page.signal);
  const {payload, ...event} = answer.event;
  namePage('Event ' + event.event_id, 'locus show ' + shellWord(event.event_id), '');
  const turn = event.session_id && event.turn_id ? event.session_id + '_' + event.turn_id : null;
  const known = Object.entries(event).filter(([, value]) => value !== null);
  refill(page.main, el('h1', 'Event ' + oneLine(event.event_type || '', 40)),
    turn && el('p', el('a', {href: to(['turn', turn])}, 'Its turn, ' + turn)),
    answer.cut && el('p.dim', 'Cut: it has ' + bytes(answer.cut) + '.'),
    el('pre.card', {tabindex: '0'}, typeof payload === 'string' ? payload : JSON.stringify(payload, null, 2)),
    el('dl.card.fields', known.map(([key, value]) => [el('dt', key), el('dd', valueNode(key, value))])));
}

function valueNode(key, value) {
  if (key === 'path') return el('a', {href: to(['file'], {path: value})}, spell(value));
  if (key === 'session_id') return el('a', {href: to(['s', value])}, value);
  if (/_at$|^time$|_us$/.test(key) && Number.isInteger(value) && value > 1e14) return [time(value), el('span.dim', ' ' + value)];
  return typeof value === 'string' ? value : JSON.stringify(value);
}
