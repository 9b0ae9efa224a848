// `/turn/A..B`: what differs between two moments.

import {el, refill} from './dom.js';
import {ask} from './source.js';
import {namePage} from './frame.js';
import {inParts} from './list.js';
import {count, whole} from './words.js';
import {changeCommand} from './commands.js';
import {comparedFile} from './compared.js';
import {to} from './address.js';

const OPENED_AT_ONCE = 5;
const COMPARED_AT_ONCE = 300;

export async function show(page) {
  const [a, b] = page.parts[1].split('..');
  const {files} = await ask('compare', {a, b}, page.signal);
  namePage('Compare ' + a + ' and ' + b, changeCommand(a, b), '');
  const shown = inParts(files, COMPARED_AT_ONCE, (file) => comparedFile(file, [a, b], page.signal), 'file');
  const sum = (key) => whole(files.reduce((n, file) => n + (file[key] || 0), 0));
  const facts = `${count(files.length, 'file')} changed, ${sum('added')} lines added, ${sum('removed')} removed`;
  refill(page.main, el('h1', 'Two moments compared'),
    el('p', 'From ', el('a', {href: to(['turn', a])}, a), ' to ', el('a', {href: to(['turn', b])}, b), ' · ', el('a', {href: to(['turn', b + '..' + a])}, 'the other way')),
    el('p.dim', files.length ? facts : 'The files of both are the same.'),
    shown);
  await Promise.all(shown.slice(0, OPENED_AT_ONCE).map((file) => file.load()));
}
