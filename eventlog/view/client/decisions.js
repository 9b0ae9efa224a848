// Decisions that agents recorded.

import {el, oneLine, refill} from './dom.js';
import {ask, isRecorded} from './source.js';
import {namePage} from './frame.js';
import {time} from './words.js';
import {to} from './address.js';

export async function show(page) {
  const {rows} = await ask('decisions', {session: page.query.get('session')}, page.signal);
  namePage('Decisions', 'locus decisions', 'Decisions');
  refill(page.main, el('h1', 'Decisions'),
    rows.length ? rows.map(decisionCard) : el('p.empty', 'No decision is recorded. Agents record them through the tools of locus mcp.'));
}

function decisionCard(row) {
  return el('article.card',
    el('h2', oneLine(row.decision || row.title || 'A decision', 300)),
    row.reason && el('p.text', row.reason),
    el('p.dim', time(row.at), row.path ? ' · ' + oneLine(row.path, 200) : '', row.turn && [' · ', el('a', {href: to(['turn', row.turn])}, 'its turn')],
      !isRecorded && [' · ', el('a', {href: to(['event', row.event_id])}, 'event')]));
}
