// Keys of one letter. They rest in fields, and can be switched off.

import {changeClock, copyCommand} from './frame.js';
import {remember, remembered} from './words.js';

const keys = {names: [], load: null, on: remembered('keys') !== 'off', always: {}};

/** Begins to listen; `search` goes to the search page. */
export function listenToKeys(search) {
  keys.always = {
    '/': ['search', search], u: ['local times or UTC', changeClock], y: ['copy the command', copyCommand], '?': ['all keys', showKeys],
  };
  document.addEventListener('keydown', pressed);
  document.getElementById('help').addEventListener('click', showKeys);
}

/** The keys of the page that is shown; `load` gives `{j: ['next turn', act]}` once one of them is pressed. */
export function useKeys(names, load) {
  Object.assign(keys, {names, load});
}

async function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (event.key === 'Escape' && event.target.matches('input, textarea')) return event.target.blur();
  if (!keys.on || event.target.matches('select, textarea, input:not([type=range], [type=checkbox])')) return;
  const isOfPage = keys.names.includes(event.key);
  if (!isOfPage && !keys.always[event.key]) return;
  if (event.key === ' ' && event.target.matches('button, summary, a, [role=treeitem], .list')) return;
  event.preventDefault();
  const [, act] = (isOfPage ? await keys.load() : keys.always)[event.key];
  act();
}

async function showKeys() {
  const {keyDialog} = await import('./keydialog.js');
  keyDialog({...(keys.load && await keys.load()), ...keys.always}, keys.on, (on) => {
    keys.on = on;
    remember('keys', on ? 'on' : 'off');
  });
}
