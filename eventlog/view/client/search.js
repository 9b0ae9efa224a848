// Search, as one types.

import {el, oneLine, refill} from './dom.js';
import {asking, filters, makeAsker} from './asking.js';
import {namePage} from './frame.js';
import {count, listed, time, whole} from './words.js';
import {shellWord} from './commands.js';
import {fileLink} from './changes.js';
import {to} from './address.js';

const HIT_WORDS = {intent: 'prompt', message: 'words', content: 'content of a file', action: 'call'};

export async function show(page) {
  let lacking = null;
  const list = el('div.hits', {'aria-live': 'polite'});
  const run = makeAsker(page, list, asking('search'), (answer, values) => {
    const {hits, more, missing, events} = answer;
    const isUnderWay = missing > 0 && missing !== lacking;
    lacking = missing;
    // what the index lacks is read a piece at a time, the newest first
    if (isUnderWay) page.later('search', 0, () => run(values));
    const found = hits.length ? count(hits.length, 'hit') + (more ? ' or more' : '') : 'Nothing fits all of these words';
    return [el('p.dim', found, missing > 0 && ` in the newest ${whole(events - missing)} of ${whole(events)} events`, isUnderWay && ', reading on…'),
      hits.map(hitCard)];
  });
  const change = async ({q}) => {
    const words = q.trim().split(/\s+/).filter(Boolean);
    namePage('Search', 'locus search ' + (words.map(shellWord).join(' ') || 'WORDS'), 'Search');
    if (words.length) return run({q, limit: 50});
    refill(list, el('p.dim', 'Prompts, words of agents, results of calls, and contents of files. All words must occur; "two words" stand side by side.'));
  };
  refill(page.main, el('h1', 'Search'), filters(page, [{name: 'q', label: 'Words', type: 'search'}], change), list);
  page.main.querySelector('input').focus();
  await change({q: page.query.get('q') || ''});
}

function hitCard(hit) {
  const event = to(['event', hit.event_id]);
  const link = hit.turn ? (hit.hash ? fileLink(hit.turn, hit.path, 'text') : to(['turn', hit.turn], {event: hit.event_id})) : event;
  return el('article.card.hit',
    el('p', el('a', {href: link}, oneLine(hit.path || hit.title || hit.tool || hit.event_id, 200)),
      el('span.dim', ' ' + listed(HIT_WORDS[hit.kind] || oneLine(hit.kind, 40), hit.turn) + ' · ', time(hit.at), ' · ', el('a', {href: event}, 'event'))),
    el('p.snippet', hit.pieces.map(([text, marked]) => (marked ? el('mark', text) : text))));
}
