// `/file?path=P`: all versions of a file, and a slider over them.

import {el, oneLine, refill} from './dom.js';
import {ask} from './source.js';
import {complain, namePage} from './frame.js';
import {time} from './words.js';
import {shellWord} from './commands.js';
import {contentOf, contentWords} from './contents.js';
import {versionTable} from './versions.js';

const LINES_MAX = 2000;

export async function show(page) {
  const path = page.query.get('path') || '';
  const {versions} = await ask('history', {path}, page.signal);
  namePage(path, 'locus history ' + shellWord(path), '');
  const body = el('div');
  const facts = el('p.dim');
  const oldestFirst = versions.toReversed();
  const last = Math.max(versions.length - 1, 0);
  const stand = async (n) => {
    const version = oldestFirst[n];
    refill(facts, `Version ${n + 1} of ${versions.length} · `, time(version.at), ' · ', oneLine(version.title || version.turn || '', 100));
    slider.setAttribute('aria-valuetext', facts.textContent);
    try {
      const nodes = await versionNodes(version, path, page.signal);
      if (slider.value === String(n)) refill(body, nodes);
    } catch (failure) {
      complain(body, failure);
    }
  };
  const slider = el('input', {type: 'range', min: 0, max: last, step: 1, 'aria-label': 'Version', oninput: () => stand(Number(slider.value))});
  slider.value = String(last);
  refill(page.main, el('h1.path', oneLine(path, 300)), versionTable(versions, {in: 'repo'}), versions.length ? [el('div.slider', slider), facts, body] : null);
  if (versions.length) await stand(last);
}

async function versionNodes(version, path, signal) {
  if (!version.hash) return el('p.empty', version.operation === 'delete' ? 'Deleted here.' : 'The content is not known.');
  const content = await contentOf(version.hash, path, signal);
  const words = contentWords(content);
  if (words) return el('p.empty', words);
  const lines = content.text.slice(0, LINES_MAX).map((line) => line.map(([, text]) => text).join(''));
  return el('pre.card.text', {tabindex: '0'}, lines.join('\n'));
}
