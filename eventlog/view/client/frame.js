// What stands around every page: places to go, the command of the page, the clock, light and dark.

import {el, oneLine, refill} from './dom.js';
import {isUtc, remember, remembered, switchUtc} from './words.js';
import {shellWord} from './commands.js';
import {to} from './address.js';

const PLACES = [['Sessions', []], ['Repository', ['repo']], ['Search', ['search']], ['Cost', ['cost']],
  ['Errors', ['errors']], ['Decisions', ['decisions']], ['SQL', ['sql']]];
const frame = {};

/** Builds the frame; gives the element in which pages stand. `store` may be a lake; `names`: only these places. */
export function makeFrame(store, names) {
  const places = PLACES.filter(([name]) => !names || names.includes(name));
  frame.lake = store && store.lake ? store : null;
  frame.main = el('main', {id: 'main', tabindex: '-1'});
  frame.places = el('nav', {'aria-label': 'Places'}, places.map(([name, parts]) => el('a', {href: to(parts)}, name)));
  frame.command = el('code', {id: 'command', tabindex: '0', 'aria-label': 'The same in a terminal'});
  frame.note = el('div.note', {role: 'status', 'aria-live': 'polite'});
  frame.project = el('span', store && el('span.project', store.project));
  frame.clock = el('button.plain', {onclick: changeClock, title: 'Times local or UTC (u)'});
  document.body.append(
    el('a.skip', {href: '#main', onclick: skip}, 'Skip to the content'),
    el('header.top', el('a.brand', {href: to([])}, 'Locus'), frame.project, frame.places,
      el('div.command', frame.command, el('button', {id: 'copy', onclick: copyCommand, title: 'Copy the command (y)'}, 'Copy')),
      el('div.tools', frame.clock, el('button.plain', {onclick: changeTheme, title: 'Light, dark, or as the system'}, 'Theme'),
        el('button.plain', {id: 'help', title: 'All keys (?)'}, 'Keys'))),
    frame.main, frame.note);
  wearTheme(remembered('theme') || '');
  nameClock();
  return frame.main;
}

/** Says in the frame which page this is: its title, its command, its place among `PLACES`. */
export function namePage(title, command, place) {
  document.title = (title ? oneLine(title, 80) + ' · ' : '') + 'Locus';
  frame.command.textContent = frame.lake ? inLake(command, place) : command;
  for (const link of frame.places.children) {
    if (link.textContent === place) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

/** The command that asks a lake for what a page shows: a view of SQL has the name of its page. */
function inLake(command, place) {
  const view = frame.lake.pages.includes(place) ? `locus sql 'from ${place.toLowerCase()}'` : 'locus view';
  const asked = /^locus (stats|sql) /.test(command) ? command : view;
  return asked.replace(/^locus \w+/, (verb) => verb + ' --lake ' + shellWord(frame.lake.lake));
}

/** Where the frame says which project this is. */
export function projectPlace() {
  return frame.project;
}

/** A line that is read out and fades. */
export function say(words) {
  refill(frame.note, words);
  clearTimeout(frame.timer);
  frame.timer = setTimeout(() => refill(frame.note), 4000);
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    say('Copied: ' + text);
  } catch {
    say('This browser does not let the page copy; select the text instead.');
  }
}

export function copyCommand() {
  copyText(frame.command.textContent);
}

/** A button that copies a command, which stands beside it. */
export function commandBox(command) {
  return el('span.command', el('code', {tabindex: '0'}, command), el('button', {onclick: () => copyText(command)}, 'Copy'));
}

/** What could not be shown, and what to do. */
export function complaint(failure) {
  return el('div.card.complaint', {role: 'alert'}, el('p', failure.what || String(failure.message || failure)),
    failure.next && el('p.dim', failure.next));
}

export function changeClock() {
  switchUtc();
  nameClock();
}

function nameClock() {
  frame.clock.textContent = isUtc() ? 'UTC' : 'Local time';
}

function skip(event) {
  event.preventDefault();
  frame.main.focus();
}

function changeTheme() {
  const next = {'': 'dark', dark: 'light', light: ''}[document.documentElement.dataset.theme || ''];
  remember('theme', next);
  wearTheme(next);
  say('Colours: ' + (next || 'as the system'));
}

function wearTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}
