// What stands around every page: places to go, the command of the page, the clock, light and dark.

import {el, oneLine, refill} from './dom.js';
import {isUtc, remember, remembered, shellWord, switchUtc} from './words.js';
import {to, writeAddress} from './address.js';
import {isRecorded} from './source.js';

const PLACES = [['Sessions', []], ['Repository', ['repo']], ['Search', ['search']], ['Cost', ['cost']],
  ['Errors', ['errors']], ['Decisions', ['decisions']], ['SQL', ['sql']]];
const frame = {command: '', places: null, main: null, commandText: null, note: null, stores: null, clock: null, lake: null};

/** Builds the frame once; gives the element in which pages stand. `names`: only these places, null for all. */
export function makeFrame(names = null) {
  const places = PLACES.filter(([name]) => !names || names.includes(name));
  frame.main = el('main', {id: 'main', tabindex: '-1'});
  frame.places = el('nav', {'aria-label': 'Places'}, places.map(([name, parts]) => el('a', {href: to(parts)}, name)));
  frame.commandText = el('code', {id: 'command', tabindex: '0', 'aria-label': 'The same in a terminal'});
  frame.note = el('div.note', {role: 'status', 'aria-live': 'polite'});
  frame.stores = el('span');
  frame.clock = el('button.plain', {onclick: changeClock, title: 'Times local or UTC (u)'});
  const copy = el('button', {id: 'copy', onclick: copyCommand, title: 'Copy the command (y)'}, 'Copy');
  const theme = el('button.plain', {onclick: changeTheme, title: 'Light, dark, or as the system'}, 'Theme');
  const help = el('button.plain', {id: 'help', title: 'All keys (?)'}, 'Keys');
  document.body.append(
    el('a.skip', {href: '#main', onclick: skip}, 'Skip to the content'),
    el('header.top', el('a.brand', {href: to([])}, 'Locus'), frame.stores, frame.places,
      el('div.command', frame.commandText, copy), el('div.tools', frame.clock, theme, help)),
    frame.main, frame.note);
  wearTheme(remembered('theme') || '');
  nameClock();
  return frame.main;
}

/** Says in the frame which page this is: its title, its command, its place among `PLACES`. */
export function namePage(title, command, place) {
  document.title = (title ? oneLine(title, 80) + ' · ' : '') + 'Locus';
  nameCommand(frame.lake ? inLake(command, place) : command);
  for (const link of frame.places.children) {
    if (link.textContent === place) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

export function nameCommand(command) {
  frame.command = command;
  frame.commandText.textContent = command;
}

/** The command that asks a lake for what a page shows: a view of SQL has the name of its page. */
function inLake(command, place) {
  const view = frame.lake.pages.includes(place) ? `locus sql 'from ${place.toLowerCase()}'` : 'locus view';
  const asked = /^locus (stats|sql) /.test(command) ? command : view;
  return asked.replace(/^locus \w+/, (verb) => verb + ' --lake ' + shellWord(frame.lake.lake));
}

/** The stores to choose from; a recorded page has one, and so has a lake. */
export function nameStores(stores, current) {
  if (stores[0].lake) frame.lake = stores[0];
  if (stores.length === 1) refill(frame.stores, el('span.project', stores[0].project));
  if (stores.length < 2) return;
  const choice = el('select', {'aria-label': 'Store', onchange: () => location.assign('/store/' + encodeURIComponent(choice.value) + '/')},
    stores.map((s) => el('option', {value: s.name, selected: s.name === current}, s.project === s.name ? s.name : s.project + ' (' + s.name + ')')));
  refill(frame.stores, choice);
  frame.places.querySelectorAll('a').forEach((link, n) => link.setAttribute('href', to(PLACES[n][1])));
  document.querySelector('.brand').setAttribute('href', to([]));
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
  copyText(frame.command);
}

export function changeClock() {
  switchUtc();
  nameClock();
}

/** What could not be shown, and what to do. */
export function complaint(failure) {
  return el('div.card.complaint', {role: 'alert'}, el('p', failure.what || String(failure.message || failure)),
    failure.next ? el('p.dim', failure.next) : null);
}

/** A button that copies a command, which stands beside it. */
export function commandBox(command) {
  return el('span.command', el('code', {tabindex: '0'}, command), el('button', {onclick: () => copyText(command)}, 'Copy'));
}

/** Form fields that stand in the address: each change writes it and calls `changed`. */
export function filters(fields, query, changed) {
  const values = () => Object.fromEntries(inputs.map((i) => [i.name, i.type === 'checkbox' ? (i.checked ? 'yes' : '') : i.value]));
  const tell = () => {
    writeAddress(to(changed.parts, values()), false);
    changed(values());
  };
  const inputs = fields.map((f) => fieldOf(f, query.get(f.name) || '', tell));
  return el('form.filters', {onsubmit: (e) => e.preventDefault(), role: 'search'},
    inputs.map((input, n) => el('label', fields[n].label, ' ', input)));
}

function fieldOf(field, value, tell) {
  if (field.choices) {
    const choices = value && !field.choices.includes(value) ? [value, ...field.choices] : field.choices;
    return el('select', {name: field.name, onchange: tell}, field.required ? null : el('option', {value: ''}, 'all'),
      choices.map((c) => el('option', {value: c, selected: c === value}, c)));
  }
  if (field.type === 'checkbox') return el('input', {name: field.name, type: 'checkbox', checked: value === 'yes', onchange: tell});
  let timer = 0;
  return el('input', {name: field.name, type: field.type || 'text', value, onchange: tell, oninput: () => {
    clearTimeout(timer);
    timer = setTimeout(tell, 200);
  }});
}

function skip(event) {
  event.preventDefault();
  frame.main.focus();
}

function nameClock() {
  frame.clock.textContent = isUtc() ? 'UTC' : 'Local time';
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
