// All keys of the page, and the switch that lets those of one letter rest.

import {el} from './dom.js';

/** `keys`: `{j: ['next turn', act]}`; `change` is called with whether they are on. */
export function keyDialog(keys, on, change) {
  const dialog = el('dialog', {'aria-label': 'Keys', onclose: () => dialog.remove()},
    el('h2', 'Keys'),
    el('dl.keys', Object.entries(keys).map(([key, [words]]) => [el('dt', el('kbd', key === ' ' ? 'space' : key)), el('dd', words)])),
    el('p', el('label', el('input', {type: 'checkbox', checked: on, onchange: (event) => change(event.target.checked)}), ' Keys of one letter')),
    el('form', {method: 'dialog'}, el('button', {autofocus: true}, 'Close')));
  document.body.append(dialog);
  dialog.showModal();
}
