// What stands around every page: places to go, the command of the page, the clock, light and dark.

import {el, oneLine, refill} from './dom.js';
import {isUtc, remembered, switchUtc} from './words.js';
import {to} from './address.js';

const PLACES = {Sessions: [], Repository: ['repo'], Search: ['search'], Cost: ['cost'], Errors: ['errors'], Decisions: ['decisions'], SQL: ['sql']};
const frame = {};

/** Builds the frame; gives the element in which pages stand. `names`: only these places, or null for all; `spell`: writes the
 * command of a page otherwise, or null. */
export function makeFrame(project, names, spell) {
  const places = Object.entries(PLACES).filter(([name]) => !names || names.includes(name));
  frame.spell = spell;
  frame.main = el('main', {id: 'main', tabindex: '-1'});
  frame.places = el('nav', {'aria-label': 'Places'}, places.map(([name, parts]) => el('a', {href: to(parts)}, name)));
  frame.command = el('code', {id: 'command', tabindex: '0', 'aria-label': 'The same in a terminal'});
  frame.clock = el('button.plain', {onclick: changeClock, title: 'Times local or UTC (u)'});
  document.body.append(
    el('a.skip', {href: '#main', onclick: skip}, 'Skip to the content'),
    el('header.top', el('a.brand', {href: to([])}, 'Locus'), project, frame.places,
      el('div.command', frame.command, el('button', {id: 'copy', onclick: copyCommand, title: 'Copy the command (y)'}, 'Copy')),
      el('div.tools', frame.clock, el('button.plain', {onclick: changeTheme, title: 'Light, dark, or as the system'}, 'Theme'),
        el('button.plain', {id: 'help', title: 'All keys (?)'}, 'Keys'))),
    frame.main, el('div.note', {role: 'status', 'aria-live': 'polite'}));
  document.documentElement.dataset.theme = remembered('theme') || '';
  nameClock();
  return frame.main;
}

/** Says in the frame which page this is: its title, its command, its place among `PLACES`. */
export function namePage(title, command, place) {
  document.title = (title ? oneLine(title, 80) + ' · ' : '') + 'Locus';
  frame.command.textContent = frame.spell ? frame.spell(command, place) : command;
  for (const link of frame.places.children) link.ariaCurrent = link.textContent === place ? 'page' : null;
}

/** Says in a node what could not be shown, and what to do; what was given up is no failure. */
export function complain(node, failure) {
  if (failure.name === 'AbortError') return;
  refill(node, el('div.card.complaint', {role: 'alert'}, el('p', failure.what || String(failure.message || failure)),
    failure.next && el('p.dim', failure.next)));
}

/** A button that copies a command, which stands beside it. */
export function commandBox(command) {
  return el('span.command', el('code', {tabindex: '0'}, command), el('button', {onclick: () => copyText(command)}, 'Copy'));
}

export function copyCommand() {
  copyText(frame.command.textContent);
}

async function copyText(text) {
  (await import('./tools.js')).copyText(text);
}

export function changeClock() {
  switchUtc();
  nameClock();
}

function nameClock() {
  frame.clock.textContent = isUtc() ? 'UTC' : 'Local time';
}

async function changeTheme() {
  (await import('./tools.js')).changeTheme();
}

function skip(event) {
  event.preventDefault();
  frame.main.focus();
}
