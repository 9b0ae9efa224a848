// The page that one begins with: sessions, those at work first.

import {el, oneLine, refill} from './dom.js';
import {ask} from './source.js';
import {commandBox, complaint, filters, namePage} from './frame.js';
import {compact, count, dollars, remembered, shellWord, time} from './words.js';
import {to} from './address.js';

const AT_ONCE = 50;
const FIELDS = ['agent', 'model', 'branch', 'person', 'state'];

export async function sessionsPage(page) {
  const list = el('div.sessions');
  const wanted = Object.fromEntries(page.query);
  const first = await ask('sessions', {...wanted, limit: AT_ONCE}, page.signal);
  let asked = null;
  const change = async (values) => {
    Object.assign(wanted, values);
    if (asked) asked.abort();
    asked = new AbortController();
    nameSessions(wanted);
    try {
      fill(page, list, await ask('sessions', {...wanted, limit: AT_ONCE}, asked.signal), wanted);
    } catch (failure) {
      if (failure.name !== 'AbortError') refill(list, complaint(failure));
    }
  };
  change.parts = [];
  const fields = FIELDS.filter((name) => (first.choices[name] || []).length > 1 || wanted[name]).map((name) => ({name, label: name[0].toUpperCase() + name.slice(1), choices: first.choices[name] || []}));
  refill(page.main, el('h1', 'Sessions'),
    filters([{name: 'q', label: 'Words', type: 'search'}, ...fields, {name: 'day', label: 'Day', type: 'date'}], page.query, change), list);
  fill(page, list, first, wanted);
  nameSessions(wanted);
  let timer = 0;
  page.live = () => {
    clearTimeout(timer);
    timer = setTimeout(() => change({}), 300);
  };
  page.keys({t: ['filter sessions', () => page.main.querySelector('input').focus()]});
}

function nameSessions(wanted) {
  namePage('Sessions', 'locus session ls --all' + (wanted.agent ? ' --agent ' + shellWord(wanted.agent) : ''), 'Sessions');
}

function fill(page, list, answer, wanted) {
  const active = answer.sessions.filter((s) => s.active);
  const rest = answer.sessions.filter((s) => !s.active);
  const part = (title, sessions) => (sessions.length ? el('section', title ? el('p.dim', title) : null, sessions.map(sessionCard)) : null);
  refill(list, part('At work now', active), part(active.length ? 'Before' : '', rest),
    answer.sessions.length ? null : el('p.empty', 'No session fits. ', Object.values(wanted).some(Boolean) ? 'Take out a filter.' : 'locus hooks install records what agents do from now on, locus import what they did before.'),
    answer.more ? moreButton(page, list, answer, wanted) : null);
}

function moreButton(page, list, answer, wanted) {
  const button = el('button', {onclick: async () => {
    const last = answer.sessions[answer.sessions.length - 1];
    const next = await ask('sessions', {...wanted, limit: AT_ONCE, before: typeof answer.more === 'string' ? answer.more : last.session_id}, page.signal);
    button.replaceWith(...next.sessions.map(sessionCard), ...(next.more ? [moreButton(page, list, next, wanted)] : []));
  }}, 'Show more');
  return button;
}

function sessionCard(s) {
  const tokens = (s.prompt_tokens || 0) + (s.completion_tokens || 0);
  const who = [s.agent, (s.person || '').replace(/ <.*/, ''), (s.models || []).join(', '), s.branch].filter(Boolean).map((t) => oneLine(t, 60)).join(' · ');
  const figures = [count(s.turns || 0, 'turn'), s.tool_calls ? count(s.tool_calls, 'call') : '', s.errors ? count(s.errors, 'error') : '',
    tokens ? compact(tokens) + ' tokens' : '', s.cost_usd ? dollars(s.cost_usd) : ''].filter(Boolean).join(' · ');
  const isNew = remembered('seen-' + s.session_id) === null;
  return el('article.card.session' + (s.active ? '.active' : ''), {'data-session': s.session_id},
    el('h2', el('a', {href: to(['s', s.session_id])}, oneLine(s.title || 'Without a title', 160)), isNew ? null : el('span.dim', {title: 'You looked at it'}, ' seen')),
    s.active && s.doing ? el('p.doing', 'Now: ' + oneLine(s.doing, 200)) : null,
    el('p.dim', time(s.last_at ?? s.started_at), ' · ', who, ' · ', figures, s.days && s.days.length > 1 ? ' · on ' + s.days.length + ' days' : ''),
    s.resume ? el('details', el('summary', 'Go on with it'), commandBox(s.resume)) : null);
}
