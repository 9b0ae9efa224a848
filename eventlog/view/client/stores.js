// The choice among several stores.

import {el, refill} from './dom.js';
import {projectPlace} from './frame.js';

/** The stores to choose from, where the frame says which project this is. */
export function nameStores(stores, current) {
  const go = () => location.assign('/store/' + encodeURIComponent(choice.value) + '/');
  const words = (s) => (s.project === s.name ? s.name : s.project + ' (' + s.name + ')');
  const choice = el('select', {'aria-label': 'Store', onchange: go},
    stores.map((s) => el('option', {value: s.name, selected: s.name === current}, words(s))));
  refill(projectPlace(), choice);
}
