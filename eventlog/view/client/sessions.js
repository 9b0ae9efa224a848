// The page that one begins with: sessions, those at work first.

import {el, oneLine, refill} from './dom.js';
import {ask} from './source.js';
import {asking, filters, makeAsker} from './asking.js';
import {commandBox, namePage} from './frame.js';
import {compact, count, dollars, listed, remembered, time} from './words.js';
import {shellWord} from './commands.js';
import {to} from './address.js';

const AT_ONCE = 50;
const FIELDS = ['agent', 'model', 'branch', 'person', 'state'];
const LIVE_MS = 300;

export async function show(page) {
  const list = el('div.sessions');
  const run = makeAsker(page, list, asking('sessions'), (answer, values) => sessionNodes(page, answer, values));
  let wanted = {...Object.fromEntries(page.query), limit: AT_ONCE};
  const change = (values) => {
    wanted = {...wanted, ...values};
    nameSessions(wanted);
    return run(wanted);
  };
  const first = await ask('sessions', wanted, page.signal);
  const {choices} = first;
  const chosen = FIELDS.filter((name) => (choices[name] || []).length > 1 || wanted[name])
    .map((name) => ({name, label: name[0].toUpperCase() + name.slice(1), choices: choices[name] || []}));
  const fields = [{name: 'q', label: 'Words', type: 'search'}, ...chosen, {name: 'day', label: 'Day', type: 'date'}];
  refill(page.main, el('h1', 'Sessions'), filters(page, fields, change), list);
  page.keys(['t'], () => ({t: ['filter sessions', () => page.main.querySelector('input').focus()]}));
  page.live = () => page.later('live', LIVE_MS, () => change({}));
  nameSessions(wanted);
  refill(list, sessionNodes(page, first, wanted));
}

function nameSessions({agent}) {
  namePage('Sessions', 'locus session ls --all' + (agent ? ' --agent ' + shellWord(agent) : ''), 'Sessions');
}

function sessionNodes(page, answer, wanted) {
  const active = answer.sessions.filter((s) => s.active);
  const others = answer.sessions.filter((s) => !s.active);
  const part = (title, sessions) => (sessions.length ? el('section', title && el('p.dim', title), sessions.map(sessionCard)) : null);
  const isNarrow = Object.entries(wanted).some(([name, value]) => name !== 'limit' && value);
  const hint = isNarrow ? 'Take out a filter.' : 'locus hooks install records what agents do from now on, locus import what they did before.';
  return [part('At work now', active), part(active.length ? 'Before' : '', others),
    answer.sessions.length ? null : el('p.empty', 'No session fits. ', hint), moreButton(page, answer, wanted)];
}

function moreButton(page, answer, wanted) {
  if (!answer.more) return null;
  const button = el('button', {onclick: async () => {
    const next = await ask('sessions', {...wanted, before: answer.sessions.at(-1).session_id}, page.signal);
    button.replaceWith(...[...next.sessions.map(sessionCard), moreButton(page, next, wanted)].filter(Boolean));
  }}, 'Show more');
  return button;
}

function sessionCard(s) {
  const tokens = (s.prompt_tokens || 0) + (s.completion_tokens || 0);
  const who = [s.agent, (s.person || '').replace(/ <.*/, ''), (s.models || []).join(', '), s.branch].map((text) => text && oneLine(text, 60));
  const figures = [count(s.turns || 0, 'turn'), s.tool_calls && count(s.tool_calls, 'call'), s.errors && count(s.errors, 'error'),
    tokens && compact(tokens) + ' tokens', s.cost_usd && dollars(s.cost_usd), s.days && s.days.length > 1 && 'on ' + s.days.length + ' days'];
  const isSeen = remembered('seen-' + s.session_id) !== null;
  return el('article.card.session' + (s.active ? '.active' : ''), {'data-session': s.session_id},
    el('h2', el('a', {href: to(['s', s.session_id])}, oneLine(s.title || 'Without a title', 160)), isSeen && el('span.dim', {title: 'You looked at it'}, ' seen')),
    s.active && s.doing && el('p.doing', 'Now: ' + oneLine(s.doing, 200)),
    el('p.dim', time(s.last_at ?? s.started_at), ' · ', listed(who, figures)),
    s.resume && el('details', el('summary', 'Resume the conversation'), commandBox(s.resume)));
}
