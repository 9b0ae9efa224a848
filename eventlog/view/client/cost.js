// Tokens and what they cost: by day, project, model, agent; what caching saved; days and hours.

import {el, oneLine, refill} from './dom.js';
import {ask, isRecorded} from './source.js';
import {filters, makeAsker} from './asking.js';
import {namePage} from './frame.js';
import {compact, dollars, duration, isGiven, isUtc, listed, plusMinus, whole} from './words.js';
import {shellWord} from './commands.js';
import {columnChart, hourMap, shareBar} from './chart.js';
import {table} from './tables.js';
import {to} from './address.js';

const DIMENSIONS = ['day', 'week', 'month', 'project', 'model', 'agent', 'session', 'person', 'tool', 'path'];
const OF_TIME = ['day', 'week', 'month'];
const OF_REPORT = ['model', 'project', 'agent', 'person', 'tool', 'path', 'session'];
const SCOPE = ['since', 'until', 'agent', 'project', 'person'];
const DAY_MS = 86400000;
const PERIODS_MAX = 70;

export async function show(page) {
  const body = el('div');
  const run = makeAsker(page, body, figuresOf, costNodes);
  const fields = [{name: 'by', label: 'By', choices: DIMENSIONS, required: true},
    ...(isRecorded ? [] : [{name: 'since', label: 'Since', type: 'date'}, {name: 'until', label: 'Until', type: 'date'}, {name: 'agent', label: 'Agent'},
      {name: 'project', label: 'Project'}, {name: 'person', label: 'Person'}, {name: 'commits', label: 'With commits of git', type: 'checkbox'}])];
  refill(page.main, el('h1', 'Cost and tokens'), filters(page, fields, run), body);
  await run(Object.fromEntries(fields.map(({name}) => [name, page.query.get(name) || ''])));
}

/** The answers `figures`: by what is chosen first; a recorded page shows all others, too. */
async function figuresOf(values, signal) {
  const first = values.by || 'day';
  nameCost(values, first, null);
  const answerBy = (by) => ask('figures', {...values, commits: values.commits ? 1 : null, by, tz: zone()}, signal);
  const answer = await answerBy(first);
  nameCost(values, first, answer);
  const others = isRecorded ? OF_REPORT.filter((by) => by !== first) : [];
  return {...answer, by: first, others: await Promise.all(others.map(async (by) => [(await answerBy(by)).rows, by]))};
}

function nameCost(values, by, answer) {
  const scope = SCOPE.filter((name) => values[name]).map((name) => ` --${name} ${shellWord(values[name])}`);
  const commits = answer && answer.commits && !answer.with_commits ? ' --no-commits' : '';
  const clock = isUtc() ? '' : ' --tz ' + shellWord(zone());
  namePage('Cost by ' + by, 'locus stats --by ' + (by === 'project' ? 'repo' : by) + scope.join('') + commits + clock, 'Cost');
}

function zone() {
  return isUtc() ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** The figures as tiles, charts and tables. */
function costNodes(answer) {
  const {rows, by, others} = answer;
  return [tiles(answer), OF_TIME.includes(by) && rows.length ? el('div.pair', charts(rows, by)) : null,
    rows.length ? figuresCard(rows, by) : el('p.empty', 'Nothing is recorded that fits.'),
    others.filter(([of]) => of.length).map(([of, name]) => figuresCard(of, name)),
    answer.hours && card('Days and hours', hourMap(answer.hours, (n) => whole(n) + ' turns')),
    el('p.dim', answer.prices ? `Cost is an estimate by public list prices: ${oneLine(answer.prices, 200)}. Calls of unknown models have no cost.`
      : 'No prices: the extra cost is not installed.', ' A blank is unknown.')];
}

function card(title, ...inside) {
  return el('section.card', el('h2', title), inside);
}

function tiles({total, saved_by_caching_usd: saved, commits, with_commits: isWith}) {
  const cached = total.prompt_tokens && isGiven(total.cache_read_tokens) && Math.round(100 * total.cache_read_tokens / total.prompt_tokens) + ' % of input from a cache';
  const some = (n, words) => n && whole(n) + ' ' + words;
  const shown = [['Cost', dollars(total.cost_usd), some(total.unpriced_calls, 'calls without a price') || 'estimate by list prices'],
    ['Saved by caching', dollars(saved), 'against the price of input'], ['Tokens', compact(total.tokens), cached],
    ['Turns', whole(total.turns), listed(total.sessions && 'in ' + some(total.sessions, 'sessions'), some(commits, isWith ? 'are commits' : 'commits besides'))],
    ['Tool calls', whole(total.tool_calls), some(total.tool_failed, 'failed')],
    ['Errors', whole(total.errors), some(total.errors_open, 'open')]];
  return el('section.tiles', {'aria-label': 'In total'},
    shown.map(([name, value, note]) => el('div.tile', el('div.what', name), el('div.figure', value || '–'), el('div.dim', note || ''))));
}

function charts(rows, by) {
  const periods = periodsOf(rows.filter((r) => r.key), by);
  const unit = periods.length ? periods[0].unit : by;
  const chart = (title, name, words) => card(title + ' by ' + unit, columnChart(title + ' by ' + unit, words,
    periods.map(({key, [name]: size}) => ({name: key, short: key.length > 7 ? key.slice(5) : key, size}))));
  const has = (name) => periods.some((p) => p[name]);
  return [has('cost') ? chart('Cost', 'cost', dollars) : has('tokens') ? chart('Tokens', 'tokens', compact) : chart('Changes', 'changes', compact), chart('Turns', 'turns', compact)];
}

/** Days without a gap, or their months or years where days would be too many; other rows as they are. */
function periodsOf(rows, by) {
  const dated = rows.filter((r) => by !== 'day' || /^(19|20)\d\d-/.test(r.key)).sort((a, b) => (a.key < b.key ? -1 : 1));
  const sum = (of, name) => of.reduce((n, r) => n + Number(r[name] || 0), 0);
  const period = (key, unit, of) => ({key, unit, cost: sum(of, 'cost_usd'), tokens: sum(of, 'tokens'), turns: sum(of, 'turns'), changes: sum(of, 'file_changes')});
  if (by !== 'day' || !dated.length) return dated.slice(-PERIODS_MAX).map((r) => period(r.key, by, [r]));
  const [first, last] = [dated[0].key, dated.at(-1).key].map(Date.parse);
  const years = Number(dated.at(-1).key.slice(0, 4)) - Number(dated[0].key.slice(0, 4));
  const [size, unit] = (last - first) / DAY_MS < PERIODS_MAX ? [10, 'day'] : years < PERIODS_MAX / 12 ? [7, 'month'] : [4, 'year'];
  const keys = new Set();
  for (let at = first; at <= last; at += DAY_MS) keys.add(new Date(at).toISOString().slice(0, size));
  return [...keys].map((key) => period(key, unit, dated.filter((r) => r.key.startsWith(key))));
}

/** The rows, without columns that none of them has. */
function figuresCard(rows, by) {
  const size = (r) => r.tokens || r.turns || 0;
  const most = Math.max(...rows.map(size), 1);
  const some = (name) => (r) => (r[name] ? whole(r[name]) : '');
  const columns = [
    ['Cost', (r) => dollars(r.cost_usd) || (r.unpriced_calls ? 'no price' : '')],
    ['Tokens', (r) => r.tokens && el('span', {title: whole(r.tokens)}, compact(r.tokens))],
    ['', (r) => shareBar(size(r) / most)],
    ['From cache', (r) => compact(r.cache_read_tokens)], ['Turns', (r) => whole(r.turns)], ['Calls', (r) => whole(r.tool_calls)],
    ['Failed', some('tool_failed')], ['Errors', some('errors')], ['Changes', some('file_changes')], ['Lines', linesOf],
    ['Time in tools', (r) => r.tool_total_ms && duration(r.tool_total_ms * 1000)],
  ].map(([name, cell]) => ({name, cells: rows.map((r) => cell(r) || '')})).filter(({cells}) => cells.some(isShown));
  return card('By ' + by, table('Figures by ' + by, '.figures', [by[0].toUpperCase() + by.slice(1), ...columns.map((c) => c.name)],
    rows.map((r, n) => [el('td', {'data-key': r.key}, keyNode(r, by)), ...columns.map((c) => el('td', {'data-name': c.name}, c.cells[n]))])));
}

/** Lines added and removed; `?` where those of some changes are unknown. */
function linesOf(r) {
  const known = plusMinus(r.lines_added, r.lines_removed);
  return known && r.lines_unknown ? [known, el('span.dim', {title: `unknown for ${whole(r.lines_unknown)} of ${whole(r.file_changes)} changes`}, ' ?')] : known;
}

function isShown(cell) {
  return cell instanceof Node || (Array.isArray(cell) ? cell.some(isShown) : Boolean(cell) && cell !== '0');
}

function keyNode({key, label}, by) {
  const words = oneLine(label || key || 'unknown', 90);
  const link = key && {session: () => to(['s', key]), day: () => to([], {day: key}), path: () => to(['file'], {path: key}), agent: () => to([], {agent: key})}[by];
  return link ? el('a' + (by === 'path' ? '.path' : ''), {href: link()}, words) : words;
}
