// Who wrote each line of a file.

import {el, oneLine} from './dom.js';
import {ask} from './source.js';
import {lineList} from './list.js';
import {fileLink} from './changes.js';

// what a finger needs
const LINKED_HEIGHT = 24;

/** What the file pane shows of a place as `blame`. */
export async function fileBlame(place) {
  const {lines, origins} = await ask('blame', {moment: place.moment, path: place.path}, place.signal);
  const draw = ([origin, text], n) => {
    const isFirst = n === 0 || lines[n - 1][0] !== origin;
    return el('div.line' + (isFirst ? '.first' : ''), el('span.who', isFirst && originNode(origins[origin], place)), el('span.no', n + 1), el('span.code', text));
  };
  return lineList('Who wrote each line', lines, draw, ([, text]) => text.length + 40, LINKED_HEIGHT);
}

function originNode(origin, place) {
  if (!origin) return null;
  const words = oneLine([origin.agent || origin.person, origin.title].filter(Boolean).join(': ') || origin.how, 60);
  return origin.turn ? el('a', {href: fileLink(origin.turn, place.path, 'change', place.query), title: oneLine(origin.title || origin.turn)}, words) : words;
}
