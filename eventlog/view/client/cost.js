// Tokens and what they cost: by day, project, model, agent; what caching saved; days and hours.

import {el, oneLine, refill} from './dom.js';
import {ask, isRecorded} from './source.js';
import {complaint, filters, namePage} from './frame.js';
import {compact, dollars, duration, isUtc, plusMinus, shellWord, whole} from './words.js';
import {columnChart, hourMap, shareBar} from './chart.js';
import {to} from './address.js';

const DIMENSIONS = ['day', 'week', 'month', 'project', 'model', 'agent', 'session', 'person', 'tool', 'path'];
const OF_TIME = ['day', 'week', 'month'];
const DAY_MS = 86400000;
const PERIODS_MAX = 70;
const OF_REPORT = ['model', 'project', 'agent', 'person', 'tool', 'path', 'session'];

export async function costPage(page) {
  const body = el('div');
  let asked = null;
  const change = async (values) => {
    if (asked) asked.abort();
    asked = new AbortController();
    const {signal} = asked;
    nameCost(values, null);
    page.busy();
    try {
      const by = values.by || 'day';
      const answerBy = (name) => ask('figures', {...values, commits: values.commits ? 1 : null, by: name, tz: zone()}, signal);
      const answer = await answerBy(by);
      if (!signal.aborted) nameCost(values, answer);
      const others = isRecorded ? OF_REPORT.filter((name) => name !== by) : [];
      const more = await Promise.all(others.map(async (name) => costCard((await answerBy(name)).rows, name)));
      if (!signal.aborted) refill(body, costNodes(answer, by, more));
    } catch (failure) {
      if (failure.name === 'AbortError') return;
      refill(body, complaint(failure));
    }
    page.done();
  };
  change.parts = ['cost'];
  const fields = [{name: 'by', label: 'By', choices: DIMENSIONS, required: true}, {name: 'since', label: 'Since', type: 'date'}, {name: 'until', label: 'Until', type: 'date'},
    {name: 'agent', label: 'Agent'}, {name: 'project', label: 'Project'}, {name: 'person', label: 'Person'}, {name: 'commits', label: 'Commits', type: 'checkbox'}].filter((f) => !isRecorded || f.name === 'by');
  refill(page.main, el('h1', 'Cost and tokens'), filters(fields, page.query, change), body);
  await change(Object.fromEntries(fields.map((f) => [f.name, page.query.get(f.name) || ''])));
}

function nameCost(values, answer) {
  const by = values.by === 'project' ? 'repo' : values.by || 'day';
  const scope = ['since', 'until', 'agent', 'project', 'person'].filter((name) => values[name]).map((name) => ` --${name} ${shellWord(values[name])}`);
  const rest = [answer && answer.commits && !values.commits ? ' --no-commits' : '', isUtc() ? '' : ' --tz ' + shellWord(zone())];
  namePage('Cost by ' + (values.by || 'day'), ['locus stats --by ', by, ...scope, ...rest].join(''), 'Cost');
}

function zone() {
  return isUtc() ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone;
}

function costCard(rows, by) {
  return rows.length ? card('By ' + by, figuresTable(rows, by)) : null;
}

/** The figures as tiles, charts and tables. */
function costNodes(answer, by, more) {
  const {total, rows} = answer;
  return [tiles(total, answer), OF_TIME.includes(by) && rows.length ? el('div.pair', charts(rows, by)) : null,
    costCard(rows, by) || el('p.empty', 'Nothing is recorded that fits.'), more,
    answer.hours ? card('Days and hours', hourMap(answer.hours, (n) => whole(n) + ' turns')) : null,
    el('p.dim', answer.prices ? 'Cost is an estimate by public list prices: ' + oneLine(answer.prices, 200) + '. Calls of unknown models have no cost.' : 'No prices: the extra cost is not installed.', ' A blank is unknown.')];
}

function tiles(total, answer) {
  const cached = total.prompt_tokens && total.cache_read_tokens !== null && total.cache_read_tokens !== undefined ? Math.round(100 * total.cache_read_tokens / total.prompt_tokens) + ' % of input from a cache' : '';
  const shown = [['Cost', dollars(total.cost_usd), total.unpriced_calls ? whole(total.unpriced_calls) + ' calls without a price' : 'estimate by list prices'],
    ['Saved by caching', dollars(answer.saved_by_caching_usd), 'against the price of input'], ['Tokens', compact(tokensOf(total)), cached],
    ['Turns', whole(total.turns), [total.sessions ? 'in ' + whole(total.sessions) + ' sessions' : '', answer.commits ? whole(answer.commits) + ' commits besides' : ''].filter(Boolean).join(', ')],
    ['Tool calls', whole(total.tool_calls), total.tool_failed ? whole(total.tool_failed) + ' failed' : ''],
    ['Errors', whole(total.errors), total.errors_open ? whole(total.errors_open) + ' open' : '']];
  return el('section.tiles', {'aria-label': 'In total'}, shown.map(([name, value, note]) => el('div.tile', el('div.what', name), el('div.figure', value || '–'), el('div.dim', note))));
}

function charts(rows, by) {
  const periods = periodsOf(rows.filter((r) => r.key), by);
  const spent = periods.some((p) => p.cost);
  const chart = (title, name, spellSize) => card(title, columnChart(title, periods.map((p) => ({name: p.key, short: p.key.length > 7 ? p.key.slice(5) : p.key, size: p[name], words: spellSize(p[name])})), spellSize));
  const unit = periods.length ? periods[0].unit : by;
  return [spent ? chart('Cost by ' + unit, 'cost', dollars) : chart('Tokens by ' + unit, 'tokens', compact), chart('Turns by ' + unit, 'turns', compact)];
}

/** Days without a gap, or their months or years where days would be too many; other rows as they are. */
function periodsOf(rows, by) {
  const dated = rows.filter((r) => by !== 'day' || /^(19|20)\d\d-/.test(r.key)).sort((a, b) => (a.key < b.key ? -1 : 1));
  const sum = (key, unit, of) => ({key, unit, cost: total(of, 'cost_usd'), tokens: of.reduce((n, r) => n + (tokensOf(r) || 0), 0), turns: total(of, 'turns')});
  if (by !== 'day' || !dated.length) return dated.slice(-PERIODS_MAX).map((r) => sum(r.key, by, [r]));
  const [first, last] = [dated[0].key, dated[dated.length - 1].key];
  const [size, unit] = daysBetween(first, last) < PERIODS_MAX ? [10, 'day'] : Number(last.slice(0, 4)) - Number(first.slice(0, 4)) < PERIODS_MAX / 12 ? [7, 'month'] : [4, 'year'];
  const keys = [];
  for (let at = Date.parse(first); at <= Date.parse(last); at += DAY_MS) {
    const key = new Date(at).toISOString().slice(0, size);
    if (keys[keys.length - 1] !== key) keys.push(key);
  }
  return keys.map((key) => sum(key, unit, dated.filter((r) => r.key.startsWith(key))));
}

function daysBetween(first, last) {
  return (Date.parse(last) - Date.parse(first)) / DAY_MS;
}

function total(rows, name) {
  return rows.reduce((sum, r) => sum + Number(r[name] || 0), 0);
}

/** The rows, without columns that none of them has. */
function figuresTable(rows, by) {
  const most = Math.max(...rows.map((r) => tokensOf(r) || r.turns || 0), 1);
  const columns = [
    ['Cost', (r) => (r.cost_usd !== null && r.cost_usd !== undefined ? dollars(r.cost_usd) : r.unpriced_calls ? 'no price' : '')],
    ['Tokens', (r) => (tokensOf(r) ? el('span', {title: whole(tokensOf(r))}, compact(tokensOf(r))) : '')],
    ['', (r) => shareBar((tokensOf(r) || r.turns || 0) / most)],
    ['From cache', (r) => compact(r.cache_read_tokens)], ['Turns', (r) => whole(r.turns)], ['Calls', (r) => whole(r.tool_calls)],
    ['Failed', (r) => (r.tool_failed ? whole(r.tool_failed) : '')], ['Errors', (r) => (r.errors ? whole(r.errors) : '')],
    ['Changes', (r) => (r.file_changes ? whole(r.file_changes) : '')], ['Lines', linesOf],
    ['Time in tools', (r) => (r.tool_total_ms ? duration(r.tool_total_ms * 1000) : '')],
  ].map(([name, cell]) => ({name, cells: rows.map(cell)})).filter(({cells}) => cells.some(isShown));
  const line = (r, n) => el('tr', el('td', {'data-key': r.key}, keyNode(r, by)), columns.map((c) => el('td', {'data-name': c.name}, c.cells[n])));
  return el('div.wide', {tabindex: '0', role: 'region', 'aria-label': 'Figures by ' + by}, el('table.figures',
    el('thead', el('tr', [by[0].toUpperCase() + by.slice(1), ...columns.map((c) => c.name)].map((h) => el(h ? 'th' : 'td', h ? {scope: 'col'} : null, h)))),
    el('tbody', rows.map(line))));
}

/** Lines added and removed; `?` where those of some changes are unknown. */
function linesOf(r) {
  const known = plusMinus(r.lines_added, r.lines_removed);
  return known && r.lines_unknown ? [known, el('span.dim', {title: `unknown for ${whole(r.lines_unknown)} of ${whole(r.file_changes)} changes`}, ' ?')] : known;
}

function isShown(cell) {
  return cell instanceof Node || (Array.isArray(cell) ? cell.some(isShown) : Boolean(cell) && cell !== '0');
}

function keyNode(row, by) {
  const words = oneLine(row.label || row.key || 'unknown', 90);
  if (by === 'session' && row.key) return el('a', {href: to(['s', row.key])}, words);
  if (by === 'day' && row.key) return el('a', {href: to([], {day: row.key})}, words);
  if (by === 'path' && row.key) return el('a.path', {href: to(['file'], {path: row.key})}, words);
  if (by === 'agent' && row.key) return el('a', {href: to([], {agent: row.key})}, words);
  return words;
}

function tokensOf(row) {
  if (row.tokens !== undefined) return row.tokens;
  return row.prompt_tokens === null || row.prompt_tokens === undefined ? null : row.prompt_tokens + (row.completion_tokens || 0);
}

function card(title, ...inside) {
  return el('section.card', el('h2', title), inside);
}
