// What stands where no page has this address.

import {el, refill} from './dom.js';
import {commandBox, namePage} from './frame.js';
import {to} from './address.js';

export async function show(page) {
  namePage('No such page', 'locus view', '');
  refill(page.main, el('h1', 'There is no page here'),
    el('p', el('a', {href: to([])}, 'Sessions'), ' is where to begin. In a terminal: ', commandBox('locus view')));
}
