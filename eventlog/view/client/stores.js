// The choice among several stores.

import {el} from './dom.js';

/** The stores to choose from; `current` is the name of the one that is shown. */
export function storeChoice(stores, current) {
  const words = (s) => (s.project === s.name ? s.name : s.project + ' (' + s.name + ')');
  const choice = el('select', {'aria-label': 'Store', onchange: () => location.assign('/store/' + encodeURIComponent(choice.value) + '/')},
    stores.map((s) => el('option', {value: s.name, selected: s.name === current}, words(s))));
  return choice;
}
