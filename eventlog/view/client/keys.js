// Keys of one letter. They rest in fields, and can be switched off.

import {el} from './dom.js';
import {changeClock, copyCommand} from './frame.js';
import {remember, remembered} from './words.js';

const keys = {of: {}, on: remembered('keys') !== 'off', always: {}};

/** Begins to listen; `search` goes to the search page. */
export function listenToKeys(search) {
  keys.always = {
    '/': ['search', search], u: ['local times or UTC', changeClock], y: ['copy the command', copyCommand],
    '?': ['all keys', showKeys],
  };
  document.addEventListener('keydown', pressed);
  document.getElementById('help').addEventListener('click', showKeys);
}

/** The keys of the page that is shown: `{j: ['next turn', act]}`. */
export function useKeys(ofPage) {
  keys.of = ofPage;
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (event.key === 'Escape' && event.target.matches('input, textarea')) return event.target.blur();
  if (!keys.on || inField(event.target)) return;
  const entry = keys.of[event.key] || keys.always[event.key];
  if (!entry || (event.key === ' ' && event.target.matches('button, summary, a, [role=treeitem], .list'))) return;
  event.preventDefault();
  entry[1]();
}

function inField(node) {
  return node.matches('select, textarea, input:not([type=range], [type=checkbox])');
}

function showKeys() {
  const rows = Object.entries({...keys.of, ...keys.always});
  const dialog = el('dialog', {'aria-label': 'Keys', onclose: () => dialog.remove()},
    el('h2', 'Keys'),
    el('dl.keys', rows.map(([key, [words]]) => [el('dt', el('kbd', key === ' ' ? 'space' : key)), el('dd', words)])),
    el('p', el('label', el('input', {type: 'checkbox', checked: keys.on, onchange: switchKeys}), ' Keys of one letter')),
    el('form', {method: 'dialog'}, el('button', {autofocus: true}, 'Close')));
  document.body.append(dialog);
  dialog.showModal();
}

function switchKeys(event) {
  keys.on = event.target.checked;
  remember('keys', keys.on ? 'on' : 'off');
}
