// Tokens and what they cost: by day, project, model, agent; what caching saved; days and hours.

import {el, oneLine, refill} from './dom.js';
import {ask} from './source.js';
import {complaint, filters, namePage} from './frame.js';
import {compact, dollars, duration, isUtc, plusMinus, shellWord, whole} from './words.js';
import {columnChart, hourMap, shareBar} from './chart.js';
import {to} from './address.js';

const DIMENSIONS = ['day', 'week', 'month', 'project', 'model', 'agent', 'session', 'person', 'tool', 'path'];
const NARROWED = ['by', 'since', 'until', 'agent', 'project', 'person'];
const OF_TIME = ['day', 'week', 'month'];

export async function costPage(page) {
  const body = el('div');
  let asked = null;
  const answerOf = (values, signal) => {
    nameCost(values);
    const tz = isUtc() ? 'UTC' : Intl.DateTimeFormat().resolvedOptions().timeZone;
    return ask('figures', {...values, by: values.by || 'day', tz}, signal);
  };
  const change = async (values) => {
    if (asked) asked.abort();
    asked = new AbortController();
    const {signal} = asked;
    try {
      const answer = await answerOf(values, signal);
      if (!signal.aborted) refill(body, costNodes(answer, values.by || 'day'));
    } catch (failure) {
      if (failure.name !== 'AbortError') refill(body, complaint(failure));
    }
  };
  change.parts = ['cost'];
  const given = Object.fromEntries(NARROWED.map((name) => [name, page.query.get(name) || '']));
  const first = await answerOf(given, page.signal);
  const choices = first.choices || {};
  const known = {by: DIMENSIONS, agent: choices.agents || choices.agent, project: choices.projects || choices.project, person: choices.people || choices.person};
  const fields = NARROWED.filter((name) => !known[name] || known[name].length > 1 || given[name])
    .map((name) => ({name, label: name[0].toUpperCase() + name.slice(1), choices: known[name], required: name === 'by', type: 'date'}));
  refill(page.main, el('h1', 'Cost and tokens'), filters(fields, page.query, change), body);
  refill(body, costNodes(first, given.by || 'day'));
}

function nameCost(values) {
  const by = values.by === 'project' ? 'repo' : values.by || 'day';
  namePage('Cost by ' + (values.by || 'day'), 'locus stats --by ' + by + (values.since ? ' --since ' + shellWord(values.since) : ''), 'Cost');
}

/** The figures as tiles, charts and a table. */
function costNodes(answer, by) {
  const {total, rows} = answer;
  return [tiles(total, answer), OF_TIME.includes(by) && rows.length ? el('div.pair', charts(rows, by)) : null,
    rows.length ? card('By ' + by, figuresTable(rows, by)) : el('p.empty', 'Nothing is recorded that fits.'),
    answer.hours ? card('Days and hours', hourMap(answer.hours, (n) => whole(n) + ' turns')) : null,
    el('p.dim', answer.prices ? 'Cost is an estimate by public list prices: ' + oneLine(answer.prices, 200) + '. Calls of unknown models have no cost.' : 'No prices: the extra cost is not installed.', ' A blank is unknown.')];
}

function tiles(total, answer) {
  const cached = total.prompt_tokens && total.cache_read_tokens !== null && total.cache_read_tokens !== undefined ? Math.round(100 * total.cache_read_tokens / total.prompt_tokens) + ' % of input from a cache' : '';
  const shown = [['Cost', dollars(total.cost_usd), total.unpriced_calls ? whole(total.unpriced_calls) + ' calls without a price' : 'estimate by list prices'],
    ['Saved by caching', dollars(answer.saved_by_caching_usd), 'against the price of input'], ['Tokens', compact(tokensOf(total)), cached],
    ['Turns', whole(total.turns), total.sessions ? 'in ' + whole(total.sessions) + ' sessions' : ''],
    ['Tool calls', whole(total.tool_calls), total.tool_failed ? whole(total.tool_failed) + ' failed' : ''],
    ['Errors', whole(total.errors), total.errors_open ? whole(total.errors_open) + ' open' : '']];
  return el('section.tiles', {'aria-label': 'In total'}, shown.map(([name, value, note]) => el('div.tile', el('div.what', name), el('div.figure', value || '–'), el('div.dim', note))));
}

function charts(rows, by) {
  const ordered = [...rows].filter((r) => r.key).sort((a, b) => (a.key < b.key ? -1 : 1)).slice(-90);
  const chart = (title, size, spellSize) => card(title, columnChart(title, ordered.map((r) => ({name: r.key, short: by === 'day' ? r.key.slice(5) : r.key, size: Number(size(r)) || 0, words: spellSize(Number(size(r)) || 0)})), spellSize));
  const spent = ordered.some((r) => r.cost_usd);
  return [spent ? chart('Cost by ' + by, (r) => r.cost_usd, dollars) : chart('Tokens by ' + by, tokensOf, compact), chart('Turns by ' + by, (r) => r.turns, compact)];
}

function figuresTable(rows, by) {
  const most = Math.max(...rows.map((r) => tokensOf(r) || r.turns || 0), 1);
  const heads = [by[0].toUpperCase() + by.slice(1), 'Cost', 'Tokens', '', 'From cache', 'Turns', 'Calls', 'Failed', 'Errors', 'Lines', 'Time in tools'];
  const cells = (r) => [keyNode(r, by), r.cost_usd !== null && r.cost_usd !== undefined ? dollars(r.cost_usd) : r.unpriced_calls ? 'no price' : '', el('span', {title: whole(tokensOf(r))}, compact(tokensOf(r))), shareBar((tokensOf(r) || r.turns || 0) / most),
    compact(r.cache_read_tokens), whole(r.turns), whole(r.tool_calls), r.tool_failed ? whole(r.tool_failed) : '', r.errors ? whole(r.errors) : '', plusMinus(r.lines_added, r.lines_removed), r.tool_total_ms ? duration(r.tool_total_ms * 1000) : ''];
  return el('div.wide', {tabindex: '0', role: 'region', 'aria-label': 'Figures by ' + by}, el('table.figures', el('thead', el('tr', heads.map((h) => el(h ? 'th' : 'td', h ? {scope: 'col'} : null, h)))),
    el('tbody', rows.map((r) => el('tr', cells(r).map((c, n) => el('td', n === 0 ? {'data-key': r.key} : null, c)))))));
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
