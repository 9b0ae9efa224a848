// Errors, with what became of them.

import {el, oneLine, refill} from './dom.js';
import {asking, filters, makeAsker} from './asking.js';
import {namePage} from './frame.js';
import {isRecorded} from './source.js';
import {listed, time} from './words.js';
import {shellWord} from './commands.js';
import {to} from './address.js';

const MESSAGE_MAX = 2000;

export async function show(page) {
  const list = el('div');
  const run = makeAsker(page, list, asking('errors'), ({rows}) => (rows.length ? rows.map(errorCard) : el('p.empty', 'No error is recorded that fits.')));
  const change = ({open, session}) => {
    namePage('Errors', 'locus errors' + (open ? ' --open' : '') + (session ? ' --session ' + shellWord(session) : ''), 'Errors');
    return run({session, open: open ? 1 : null});
  };
  const fields = [{name: 'open', label: 'Open only', type: 'checkbox'}, {name: 'session', label: 'Session'}];
  refill(page.main, el('h1', 'Errors'), filters(page, fields, change), list);
  await change(Object.fromEntries(page.query));
}

function errorCard(row) {
  const event = to(['event', row.event_id]);
  return el('article.card',
    el('p', el('span.state' + (row.resolved === null ? '.bad' : ''), row.resolved === null ? 'open ' : 'resolved '),
      el('a', {href: row.turn ? to(['turn', row.turn]) : event}, row.turn || 'the event'),
      el('span.dim', ' ', time(row.at), ' · ', listed([row.tool || row.error_type, row.path].map((text) => text && oneLine(text, 80))))),
    row.command && el('p.snippet', row.command.slice(0, MESSAGE_MAX)),
    el('pre.text', {tabindex: '0'}, String(row.message || '').slice(0, MESSAGE_MAX)), !isRecorded && el('p.dim', el('a', {href: event}, 'event')));
}
