// One file at a moment: its text, what changed, who wrote each line, all its versions.

import {el, oneLine, refill} from './dom.js';
import {ask} from './source.js';
import {makeList} from './list.js';
import {complaint} from './frame.js';
import {bytes, plusMinus, shellWord, time, whole} from './words.js';
import {drawChangedLine, fileLink, operationMark, rowsOfHunks} from './changes.js';
import {contentWords} from './turnpane.js';
import {to} from './address.js';

const LINE_HEIGHT = 20;
const LINKED_HEIGHT = 24; // what a finger needs
const CONTENTS_KEPT = 40;
const COLOURED_MAX = 1 << 20;
const MODES = [['text', 'Text'], ['change', 'Change'], ['blame', 'Blame'], ['history', 'History']];
const TOKENS = {k: 'tk', s: 'ts', c: 'tc', m: 'tm', n: 'tn', g: 'tk'};
const NAMED = new Set(['nf', 'nc', 'nb', 'nd', 'nt', 'na', 'fm', 'nn']);
const kept = new Map();

/** A content by its hash, from memory where it was asked for before. */
export async function contentOf(hash, path, signal, colour) {
  const key = hash + ':' + path;
  if (kept.has(key) && (!colour || kept.get(key).coloured)) return kept.get(key);
  const content = await ask('content/' + hash, {path, colour}, signal);
  kept.set(key, content);
  if (kept.size > CONTENTS_KEPT) kept.delete(kept.keys().next().value);
  return content;
}

/** `{node, show(place)}`; `place`: path, moment, before, entry, reason, mode, line, query, signal. */
export function makeFilePane(changeMode) {
  const title = el('h2.path');
  const facts = el('span.dim');
  const modes = MODES.map(([mode, name]) => el('button', {'data-mode': mode, onclick: () => changeMode(mode)}, name));
  const body = el('div.filebody');
  const node = el('section.file', {'aria-label': 'File'},
    el('div.filehead', title, el('div.modes', {role: 'group', 'aria-label': 'What is shown of the file'}, modes), facts), body);
  const pane = {node, body, key: '', list: null};
  body.addEventListener('click', (event) => event.target.dataset.line && changeMode('text', Number(event.target.dataset.line)));
  pane.show = async (place) => {
    refill(title, place.old ? oneLine(place.old, 200) + ' → ' : null, oneLine(place.path, 300));
    for (const button of modes) button.setAttribute('aria-pressed', String(button.dataset.mode === place.mode));
    const entry = place.entry;
    refill(facts, entry ? [bytes(entry[2]), {x: ' · executable', l: ' · symlink', m: ' · submodule', d: ' · empty directory'}[entry[3]] || ''].join('') : 'not there at this moment');
    const key = [place.path, place.mode, place.line, place.mode === 'text' && place.hash ? place.hash : place.moment + place.before].join('\n');
    if (key === pane.key) return;
    const same = pane.key.startsWith(place.path + '\n' + place.mode + '\n' + place.line + '\n');
    const top = same && pane.list ? pane.list.node.scrollTop : null;
    try {
      const shown = await {text: fileText, change: fileChange, blame: fileBlame, history: fileHistory}[place.mode](place);
      if (place.signal.aborted) return;
      pane.key = key;
      refill(body, shown.nodes);
      pane.list = shown.list;
      if (shown.list) showRows(shown, place, top);
      if (shown.later) await shown.later();
    } catch (failure) {
      if (failure.name === 'AbortError') return;
      pane.key = '';
      refill(body, complaint(failure));
    }
  };
  return pane;
}

function showRows(shown, place, top) {
  const longest = shown.rows.reduce((most, row) => Math.max(most, shown.width(row)), 0);
  shown.list.inside.style.minWidth = Math.min(longest, 3000) + 14 + 'ch';
  shown.list.show(shown.rows);
  shown.list.node.scrollTop = top ?? Math.max((place.line || 0) - 4, 0) * LINE_HEIGHT;
}

function lineList(label, rows, draw, width, height = LINE_HEIGHT) {
  const list = makeList({role: 'group', 'aria-label': label, class: 'list lines' + (height === LINE_HEIGHT ? '' : ' linked')}, height, draw);
  return {nodes: [list.node], list, rows, width};
}

async function fileText(place) {
  const words = absent(place);
  if (words) return {nodes: [el('p.empty', words)]};
  const content = await contentOf(place.hash, place.path, place.signal);
  const said = contentWords(content);
  if (said) return {nodes: [el('p.empty', said)]};
  const shown = lineList('Text of the file', content.text, (tokens, n) => el('div.line' + (n + 1 === place.line ? '.here' : ''), {id: 'L' + (n + 1)},
    el('span.no', {'data-line': n + 1}, n + 1),
    el('span.code', tokens.map(tokenNode))), (tokens) => tokens.reduce((size, t) => size + t[1].length, 0));
  const uncoloured = !content.coloured && content.size <= COLOURED_MAX;
  if (uncoloured) shown.later = async () => shown.list.show((await contentOf(place.hash, place.path, place.signal, 1)).text);
  if (content.cut) shown.nodes.unshift(el('p.dim', 'Cut after ' + bytes(content.cut) + '; the command shows all.'));
  return shown;
}

function tokenNode([kind, text]) {
  const name = NAMED.has(kind) ? 'tn' : kind && kind[0] !== 'n' ? TOKENS[kind[0]] : '';
  return name ? el('span.' + name, text) : text;
}

function absent(place) {
  if (place.reason) return 'Not captured: ' + place.reason;
  if (place.entry && place.entry[3] === 'd') return 'An empty directory.';
  if (place.entry && place.entry[3] === 'm') return 'A submodule: its files are in another repository.';
  if (place.withheld) return 'Withheld: ' + place.withheld;
  if (!place.entry) return 'This file is not there at this moment' + (place.deleted ? ': this turn deleted it.' : '.') + ' J and K go to turns that changed it.';
  return place.hash ? null : 'The content is not known.';
}

async function fileChange(place) {
  if (!place.before) return {nodes: [el('p.empty', 'There is no moment before this one to compare with.')]};
  const answer = await ask('change', {a: place.before, b: place.after || place.moment, path: place.path}, place.signal);
  const rows = rowsOfHunks(answer.hunks || []);
  const against = el('p.dim.against', place.beforeWords);
  if (!rows.length) return {nodes: [against, el('p.empty', answer.why || 'Nothing of this file changed here. J and K go to turns that changed it.')]};
  const shown = lineList('Change of the file', rows, drawChangedLine, (row) => row[3].length + 8);
  shown.nodes.unshift(against);
  return shown;
}

async function fileBlame(place) {
  const answer = await ask('blame', {moment: place.moment, path: place.path}, place.signal);
  const shown = lineList('Who wrote each line', answer.lines, ([origin, text], n) => {
    const from = answer.origins[origin];
    const first = n === 0 || answer.lines[n - 1][0] !== origin;
    return el('div.line' + (first ? '.first' : ''), null, el('span.who', first && from ? originNode(from, place) : null),
      el('span.no', n + 1), el('span.code', text));
  }, ([, text]) => text.length + 40, LINKED_HEIGHT);
  return shown;
}

function originNode(from, place) {
  const words = oneLine([from.agent || from.person || '', from.title || ''].filter(Boolean).join(': ') || from.how || 'unknown', 60);
  return from.turn ? el('a', {href: fileLink(from.turn, place.path, 'change', place.query), title: oneLine(from.title || from.turn)}, words) : words;
}

async function fileHistory(place) {
  const answer = await ask('history', {path: place.path}, place.signal);
  return {nodes: [versionTable(answer.versions, place.query)]};
}

/** The versions of a file, newest first. */
export function versionTable(versions, query) {
  if (!versions.length) return el('p.empty', 'No event of this file is recorded.');
  const rows = versions.map((v) => el('tr',
    el('td', v.operation ? operationMark(v.operation) : null, ' ', el('a', {href: v.turn ? fileLink(v.turn, v.path, 'change', query) : to(['event', v.event_id])}, oneLine(v.title || v.turn || 'without a turn', 90)),
      v.certain === false ? el('span.dim', ' not certain') : null),
    el('td', time(v.at)), el('td', plusMinus(v.added, v.removed)), el('td.path', oneLine(v.path, 120))));
  return el('div.wide', {tabindex: '0', role: 'region', 'aria-label': 'Versions'}, el('table',
    el('thead', el('tr', ['Turn', 'When', 'Lines', 'Path'].map((h) => el('th', {scope: 'col'}, h)))), el('tbody', rows)));
}

/** The command that shows the same file in a terminal. */
export function fileCommand(place) {
  const [turn, at] = place.moment.split('@');
  if (place.mode === 'history') return 'locus history ' + shellWord(place.path);
  if (place.mode === 'blame') return 'locus blame --at ' + shellWord(turn) + ' ' + shellWord(place.path);
  if (place.mode === 'change' && place.before) return changeCommand(place.before, place.after || place.moment, place.path);
  return 'locus cat ' + (at ? '--at ' + at + ' ' : '') + shellWord(turn + ':' + place.path);
}

/** `locus diff` of two moments; of a turn's own start and end it is that of the turn. */
export function changeCommand(before, moment, path) {
  const of = path ? ' ' + shellWord(path) : '';
  if (before === moment + '@start') return 'locus diff ' + shellWord(moment) + of;
  if (!before.includes('@') && !moment.includes('@')) return 'locus diff ' + shellWord(before) + ' ' + shellWord(moment) + of;
  const cat = (at) => 'locus cat ' + (at.includes('@') ? '--at start ' : '') + shellWord(at.split('@')[0] + ':' + path);
  return path ? 'diff <(' + cat(before) + ') <(' + cat(moment) + ')' : 'locus show ' + shellWord(moment.split('@')[0]);
}

/** How many files, in words for who does not see the tree. */
export function filesWords(n) {
  return 'Files (' + whole(n) + ')';
}
