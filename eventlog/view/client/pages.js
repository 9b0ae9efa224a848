// The pages that are mostly a list: search, compare, event, history, errors, decisions, SQL.

import {el, oneLine, refill, spell} from './dom.js';
import {ask} from './source.js';
import {commandBox, complaint, filters, namePage} from './frame.js';
import {bytes, count, shellWord, time, whole} from './words.js';
import {comparedFile, fileLink} from './changes.js';
import {changeCommand, contentOf, versionTable} from './filepane.js';
import {contentWords} from './turnpane.js';
import {to} from './address.js';

const OPENED_AT_ONCE = 5;
const COMPARED_AT_ONCE = 300;
const CELL_MAX = 300;
const QUESTIONS = [
  ['Turns that cost most', 'select turn, title, cost_usd from turns order by cost_usd desc nulls last limit 20'],
  ['Files changed most', "select path, count(*) as changes from events where event_type = 'file' and operation <> 'read' group by path order by changes desc limit 20"],
  ['Tools and their failures', "select tool, count(*) as calls, count(*) filter (not success) as failed from events where event_type = 'action' group by tool order by calls desc"],
  ['Turns with errors', 'select turn, title, errors from turns where errors > 0 order by started_at desc limit 50'],
  ['The columns of turns', 'describe turns'],
];

/** Asks again as one types; what was asked before is passed. */
function asker(draw) {
  let asked = null;
  return async (name, parameters) => {
    if (asked) asked.abort();
    asked = new AbortController();
    const {signal} = asked;
    try {
      const answer = await ask(name, parameters, signal);
      if (!signal.aborted) draw(answer, null);
    } catch (failure) {
      if (failure.name !== 'AbortError') draw(null, failure);
    }
  };
}

export async function searchPage(page) {
  const list = el('div.hits', {'aria-live': 'polite'});
  const run = asker((answer, failure) => {
    if (failure) return refill(list, complaint(failure));
    refill(list, el('p.dim', answer.hits.length ? count(answer.hits.length, 'hit') + (answer.more ? ', and more' : '') : 'Nothing fits all of these words.'), answer.hits.map(hitCard));
  });
  const change = async (values) => {
    namePage('Search', 'locus search ' + (values.q.trim() ? values.q.trim().split(/\s+/).map(shellWord).join(' ') : 'WORDS'), 'Search');
    if (!values.q.trim()) return refill(list, el('p.dim', 'Prompts, words of agents, results of calls, and contents of files. All words must occur; "two words" stand side by side.'));
    await run('search', {q: values.q, limit: 50});
  };
  change.parts = ['search'];
  refill(page.main, el('h1', 'Search'), filters([{name: 'q', label: 'Words', type: 'search'}], page.query, change), list);
  page.main.querySelector('input').focus();
  await change({q: page.query.get('q') || ''});
}

function hitCard(hit) {
  const link = hit.turn && hit.path ? fileLink(hit.turn, hit.path, 'text', {line: hit.line}) : hit.turn ? to(['turn', hit.turn]) : to(['event', hit.event_id]);
  const pieces = (hit.pieces || []).map(([text, marked]) => (marked ? el('mark', text) : text));
  return el('article.card.hit',
    el('p', el('a', {href: link}, hit.path ? oneLine(hit.path, 200) : oneLine(hit.title || hit.turn || hit.event_id, 120)), el('span.dim', ' ' + oneLine(hit.kind || '', 40) + ' · ', time(hit.at),
      hit.event_id ? [' · ', el('a', {href: to(['event', hit.event_id])}, 'event')] : null)),
    el('p.snippet', pieces));
}

/** `/turn/A..B`: what differs between two moments. */
export async function comparePage(page) {
  const [a, b] = page.parts[1].split('..');
  const answer = await ask('compare', {a, b}, page.signal);
  const files = answer.files;
  namePage('Compare ' + a + ' and ' + b, changeCommand(a, b), '');
  const shown = files.slice(0, COMPARED_AT_ONCE).map((file, n) => comparedFile(file, [a, b], n < OPENED_AT_ONCE, page.signal));
  refill(page.main, el('h1', 'Two moments compared'),
    el('p', 'From ', el('a', {href: to(['turn', a])}, a), ' to ', el('a', {href: to(['turn', b])}, b), ' · ', el('a', {href: to(['turn', b + '..' + a])}, 'the other way')),
    el('p.dim', files.length ? count(files.length, 'file') + ' changed, ' + whole(sumOf(files, 'added')) + ' lines added, ' + whole(sumOf(files, 'removed')) + ' removed' : 'The files of both are the same.'),
    shown, files.length > shown.length ? el('p.dim', 'and ' + count(files.length - shown.length, 'more file') + ': the command lists all') : null);
  await Promise.all(shown.filter((d) => d.open).map((d) => d.load()));
}

function sumOf(files, key) {
  return files.reduce((sum_, file) => sum_ + (file[key] || 0), 0);
}

export async function eventPage(page) {
  const answer = await ask('event', {id: page.parts[1]}, page.signal);
  const {event} = answer;
  namePage('Event ' + event.event_id, 'locus show ' + shellWord(event.event_id), '');
  const rows = Object.entries(event).filter(([key, value]) => value !== null && key !== 'payload').map(([key, value]) => [el('dt', key), el('dd', eventValue(key, value, event))]);
  const turn = answer.turn || event.turn;
  refill(page.main, el('h1', 'Event ' + oneLine(event.event_type || '', 40)), turn ? el('p', el('a', {href: to(['turn', turn])}, 'Its turn, ' + turn)) : null,
    el('dl.card.fields', rows), el('h2', 'Payload'),
    answer.cut ? el('p.dim', 'Cut: it has ' + bytes(answer.cut) + '.') : null,
    el('pre.card', {tabindex: '0'}, typeof event.payload === 'string' ? event.payload : JSON.stringify(event.payload, null, 2)));
}

function eventValue(key, value, event) {
  if (key === 'path' && typeof value === 'string') return el('a', {href: to(['file'], {path: value})}, spell(value));
  if (key === 'session_id') return el('a', {href: to(['s', value])}, value);
  if (/_at$|^at$|^time$|^ts$|_us$/.test(key) && Number.isInteger(value) && value > 1e14) return [time(value), el('span.dim', ' ' + value)];
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** `/file?path=P`: all versions, and a slider over them. */
export async function historyPage(page) {
  const path = page.query.get('path') || '';
  const {versions} = await ask('history', {path}, page.signal);
  namePage(path, 'locus history ' + shellWord(path), '');
  const body = el('div');
  const facts = el('p.dim');
  const ordered = [...versions].reverse();
  const show = async (n) => {
    const v = ordered[n];
    refill(facts, `Version ${n + 1} of ${ordered.length} · `, time(v.at), ' · ', oneLine(v.title || v.turn || '', 100));
    slider.setAttribute('aria-valuetext', facts.textContent);
    if (!v.hash) return refill(body, el('p.empty', v.operation === 'delete' || v.operation === 'D' ? 'Deleted here.' : 'The content is not known.'));
    try {
      const content = await contentOf(v.hash, path, page.signal);
      const words = contentWords(content);
      if (slider.value !== String(n)) return;
      refill(body, words ? el('p.empty', words) : el('pre.card.text', {tabindex: '0'}, content.text.slice(0, 2000).map((line) => line.map((t) => t[1]).join('')).join('\n')));
    } catch (failure) {
      if (failure.name !== 'AbortError') refill(body, complaint(failure));
    }
  };
  const slider = el('input', {type: 'range', min: 0, max: Math.max(ordered.length - 1, 0), step: 1, 'aria-label': 'Version', oninput: () => show(Number(slider.value))});
  slider.value = String(Math.max(ordered.length - 1, 0));
  refill(page.main, el('h1.path', oneLine(path, 300)), versionTable(versions, {in: 'repo'}), ordered.length ? [el('div.slider', slider), facts, body] : null);
  if (ordered.length) await show(ordered.length - 1);
}

/** A list of rows with members of any names. */
export async function errorsPage(page) {
  const open = page.query.get('open');
  const list = el('div');
  const run = asker((answer, failure) => refill(list, failure ? complaint(failure) : answer.rows.length ? answer.rows.map(errorCard) : el('p.empty', 'No error is recorded that fits.')));
  const change = (values) => {
    namePage('Errors', 'locus errors' + (values.open ? ' --open' : '') + (values.session ? ' --session ' + shellWord(values.session) : ''), 'Errors');
    return run('errors', values);
  };
  change.parts = ['errors'];
  refill(page.main, el('h1', 'Errors'), filters([{name: 'open', label: 'Open only', type: 'checkbox'}, {name: 'session', label: 'Session'}], page.query, change), list);
  await change({open, session: page.query.get('session') || ''});
}

function errorCard(row) {
  const state = row.resolved ?? row.resolved_at ?? row.resolution;
  const link = row.turn ? to(['turn', row.turn]) : row.event_id ? to(['event', row.event_id]) : null;
  return el('article.card',
    el('p', el('span.state' + (state ? '' : '.bad'), null, state ? 'resolved ' : 'open '), link ? el('a', {href: link}, oneLine(row.title || row.turn || 'the event', 120)) : null,
      el('span.dim', ' ', time(row.at ?? row.happened_at ?? row.started_at), ' · ', [row.error_type || row.kind, row.tool, row.path].filter(Boolean).map((t) => oneLine(t, 80)).join(' · '))),
    el('pre.text', {tabindex: '0'}, String(row.message || row.what || row.text || '').slice(0, 2000)), row.event_id ? el('p.dim', el('a', {href: to(['event', row.event_id])}, 'event')) : null);
}

export async function decisionsPage(page) {
  const {rows} = await ask('decisions', {session: page.query.get('session')}, page.signal);
  namePage('Decisions', 'locus decisions', 'Decisions');
  refill(page.main, el('h1', 'Decisions'), rows.length ? rows.map((row) => el('article.card',
    el('h2', oneLine(row.decision || row.title || row.what || row.text || 'A decision', 300)),
    row.reason || row.why || row.rationale ? el('p.text', String(row.reason || row.why || row.rationale)) : null,
    el('p.dim', time(row.at ?? row.happened_at), row.path ? ' · ' + oneLine(row.path, 200) : '', row.agent ? ' · ' + oneLine(row.agent, 40) : '', row.turn ? [' · ', el('a', {href: to(['turn', row.turn])}, 'its turn')] : null,
      row.event_id ? [' · ', el('a', {href: to(['event', row.event_id])}, 'event')] : null)))
    : el('p.empty', 'No decision is recorded. Agents record them through the tools of locus mcp.'));
}

export async function sqlPage(page) {
  const box = el('textarea', {rows: 5, spellcheck: 'false', 'aria-label': 'A SELECT in DuckDB’s dialect', value: page.query.get('q') || QUESTIONS[0][1]});
  const result = el('div', {'aria-live': 'polite'});
  const run = asker((answer, failure) => refill(result, failure ? complaint(failure) : table(answer)));
  const go = async () => {
    namePage('SQL', 'locus sql ' + shellWord(box.value), 'SQL');
    history.replaceState(null, '', to(['sql'], {q: box.value}));
    refill(result, el('p.dim', 'Asking…'));
    await run('sql', {q: box.value});
  };
  box.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) go();
  });
  const examples = el('select', {'aria-label': 'Example questions', onchange: () => {
    box.value = examples.value;
    go();
  }}, el('option', {value: ''}, 'Examples…'), QUESTIONS.map(([name, text]) => el('option', {value: text}, name)));
  refill(page.main, el('h1', 'SQL'), el('div.card.ask', box, el('div', el('button.main', {onclick: go}, 'Ask'), ' ', examples, el('span.dim', ' Ctrl+Enter asks. It can change nothing.'))), result);
  namePage('SQL', 'locus sql ' + shellWord(box.value), 'SQL');
  if (page.query.get('q')) await go();
}

function table(answer) {
  const cell = (value, column) => {
    const words = value === null ? el('span.dim', 'null') : typeof value === 'object' ? JSON.stringify(value) : String(value);
    if (value !== null && column.name === 'turn') return el('a', {href: to(['turn', String(value)])}, oneLine(value, CELL_MAX));
    return typeof words === 'string' ? oneLine(words, CELL_MAX) : words;
  };
  return [el('div.card.wide', {tabindex: '0', role: 'region', 'aria-label': 'Answer'}, el('table.sql',
    el('thead', el('tr', answer.columns.map((c) => el('th', {scope: 'col', title: c.type}, oneLine(c.name, 80))))),
    el('tbody', answer.rows.map((row) => el('tr', (Array.isArray(row) ? row : answer.columns.map((c) => row[c.name])).map((value, n) => el('td', cell(value, answer.columns[n])))))))),
  el('p.dim', count(answer.rows.length, 'row') + (answer.cut ? ', cut: the command gives all' : ''))];
}

/** What stands where no page has this address. */
export async function nowherePage(page) {
  namePage('No such page', 'locus view', '');
  refill(page.main, el('h1', 'There is no page here'), el('p', el('a', {href: to([])}, 'Sessions'), ' is where to begin. In a terminal: ', commandBox('locus view')));
}
