// One file at a moment: its text, what changed, who wrote each line, all its versions.

import {el, makeChoice, oneLine, refill} from './dom.js';
import {LINE_HEIGHT, lineList} from './list.js';
import {complain} from './frame.js';
import {KIND_WORDS} from './spine.js';
import {bytes, listed} from './words.js';
import {contentOf, contentWords} from './contents.js';

const COLOURED_MAX = 1 << 20;
const MODES = {
  text: fileText,
  change: async (place) => (await import('./change.js')).fileChange(place),
  blame: async (place) => (await import('./blame.js')).fileBlame(place),
  history: async (place) => (await import('./versions.js')).fileHistory(place),
};
const TOKENS = {k: 'tk', s: 'ts', c: 'tc', m: 'tm', g: 'tk'};

/** `{node, show(place), askAhead(hash, path, signal)}`; `place` as `Position.filePlace` gives it. `choose(mode, line)` is called by its buttons. */
export function makeFilePane(choose) {
  const title = el('h2.path');
  const facts = el('span.dim');
  const modes = makeChoice('mode', 'What is shown of the file', {text: 'Text', change: 'Change', blame: 'Blame', history: 'History'}, (mode) => choose(mode, null));
  const body = el('div.filebody', {onclick: ({target}) => target.dataset.line && choose('text', Number(target.dataset.line))});
  const node = el('section.file', {'aria-label': 'File'},
    el('div.filehead', title, modes.node, facts), body);
  let drawn = {};
  const show = async (place) => {
    const {path, mode, line, entry} = place;
    refill(title, place.old ? oneLine(place.old, 200) + ' → ' : null, oneLine(path, 300));
    modes.press(mode);
    refill(facts, entry ? listed(bytes(entry[2]), KIND_WORDS[entry[3]]) : 'not there at this moment');
    const wanted = {at: [path, mode, line].join('\n'), of: mode === 'text' && place.hash ? place.hash : place.moment + place.before};
    if (wanted.at === drawn.at && wanted.of === drawn.of) return;
    try {
      const shown = await MODES[mode](place);
      if (place.signal.aborted) return;
      const top = wanted.at === drawn.at && drawn.list ? drawn.list.node.scrollTop : Math.max((line || 0) - 4, 0) * LINE_HEIGHT;
      refill(body, shown.nodes);
      if (shown.fill) shown.fill(top);
      drawn = {...wanted, list: shown.list};
      if (shown.later) await shown.later();
    } catch (failure) {
      if (place.signal.aborted) return;
      drawn = {};
      complain(body, failure);
    }
  };
  return {node, show, askAhead: contentOf};
}

async function fileText(place) {
  const missing = absence(place);
  const content = missing ? null : await contentOf(place.hash, place.path, place.signal);
  const words = missing || contentWords(content);
  if (words) return {nodes: [el('p.empty', words)]};
  const shown = lineList('Text of the file', content.text, (tokens, n) => el('div.line' + (n + 1 === place.line ? '.here' : ''), {id: 'L' + (n + 1)},
    el('span.no', {'data-line': n + 1}, n + 1), el('span.code', tokens.map(tokenNode))), (tokens) => tokens.reduce((size, [, text]) => size + text.length, 0));
  if (content.cut) shown.nodes.unshift(el('p.dim', 'Cut after ' + bytes(content.cut) + '; the command shows all.'));
  if (!content.coloured && content.size <= COLOURED_MAX) {
    shown.later = async () => shown.list.show((await contentOf(place.hash, place.path, place.signal, 1)).text);
  }
  return shown;
}

function tokenNode([kind, text]) {
  const name = /^(n[abcdfnt]|fm)$/.test(kind) ? 'tn' : kind && TOKENS[kind[0]];
  return name ? el('span.' + name, text) : text;
}

/** Why there is no text to ask for; null where there is one. */
function absence({reason, entry, withheld, deleted, hash}) {
  if (reason) return 'Not captured: ' + reason;
  if (!entry) return 'This file is not there at this moment' + (deleted ? ': this turn deleted it.' : '.') + ' J and K go to turns that changed it.';
  if (entry[3] === 'd') return 'An empty directory.';
  if (entry[3] === 'm') return 'A submodule: its files are in another repository.';
  if (withheld) return 'Withheld: ' + withheld;
  return hash ? null : 'The content is not known.';
}
