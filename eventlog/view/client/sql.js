// A box for SQL, and the table that answers.

import {el, oneLine, refill} from './dom.js';
import {asking, makeAsker} from './asking.js';
import {namePage} from './frame.js';
import {count} from './words.js';
import {shellWord} from './commands.js';
import {table} from './tables.js';
import {to, writeAddress} from './address.js';

const CELL_MAX = 300;
const QUESTIONS = [
  ['Turns that cost most', 'select turn, title, cost_usd from turns order by cost_usd desc nulls last limit 20'],
  ['Files changed most', "select path, count(*) as changes from events where event_type = 'file' and operation <> 'read' group by path order by changes desc limit 20"],
  ['Tools and their failures', "select tool, count(*) as calls, count(*) filter (not success) as failed from events where event_type = 'action' group by tool order by calls desc"],
  ['Turns with errors', 'select turn, title, errors from turns where errors > 0 order by started_at desc limit 50'],
  ['The columns of turns', 'describe turns'],
];

export async function show(page) {
  const box = el('textarea', {rows: 5, spellcheck: 'false', 'aria-label': 'A SELECT in DuckDB’s dialect', value: page.query.get('q') || QUESTIONS[0][1],
    onkeydown: (event) => event.key === 'Enter' && (event.ctrlKey || event.metaKey) && go()});
  const result = el('div', {'aria-live': 'polite'});
  const run = makeAsker(page, result, asking('sql'), answerNodes);
  const name = () => namePage('SQL', 'locus sql ' + shellWord(box.value), 'SQL');
  const go = () => {
    name();
    writeAddress(to(['sql'], {q: box.value}), false);
    refill(result, el('p.dim', 'Asking…'));
    return run({q: box.value});
  };
  const examples = el('select', {'aria-label': 'Example questions', onchange: () => {
    box.value = examples.value;
    go();
  }}, el('option', {value: ''}, 'Examples…'), QUESTIONS.map(([title, text]) => el('option', {value: text}, title)));
  refill(page.main, el('h1', 'SQL'),
    el('div.card.ask', box, el('div', el('button.main', {onclick: go}, 'Ask'), ' ', examples, el('span.dim', ' Ctrl+Enter asks. It can change nothing.'))), result);
  name();
  if (page.query.get('q')) await go();
}

function answerNodes({columns, rows, cut}) {
  const heads = columns.map((column) => el('th', {scope: 'col', title: column.type}, oneLine(column.name, 80)));
  const shown = table('Answer', '.sql', heads, rows.map((row) => row.map((value, n) => cell(value, columns[n].name))));
  shown.classList.add('card');
  return [shown, el('p.dim', count(rows.length, 'row') + (cut ? ', cut: the command gives all' : ''))];
}

function cell(value, name) {
  if (value === null) return el('span.dim', 'null');
  const words = oneLine(typeof value === 'object' ? JSON.stringify(value) : value, CELL_MAX);
  if (name === 'session_id') return el('a', {href: to(['s', value])}, words);
  return name === 'event_id' ? el('a', {href: to(['event', value])}, words) : words;
}
