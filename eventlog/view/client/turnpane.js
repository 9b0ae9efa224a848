// A turn to read: the prompt, words, calls with folded results, and changes (docs/reading.md).

import {el, oneLine} from './dom.js';
import {bytes, compact, count, dollars, duration, plusMinus, time, whole} from './words.js';
import {changeBox, changeLine, fileLink, rowsOfDiff} from './changes.js';
import {to} from './address.js';

const BLOCKS_AT_ONCE = 300;
const LINES_FOLDED = 40;
const PROMPT_FOLDED = 16;
const CHANGES_LISTED = 40;

/** Everything of `page`, the answer of `/api/page`. */
export function turnNodes(page, query) {
  const changed = page.blocks.some((b) => (b.changes || []).length);
  return [turnHead(page), ...firstBlocks(page, 0, query), page.blocks.length || changed ? null : el('p.dim', 'Nothing else is recorded of this turn.')];
}

function turnHead(page) {
  const a = page.anchor || {};
  const tokens = (a.prompt_tokens || 0) + (a.completion_tokens || 0);
  const facts = [a.agent, (a.models || []).join(', '), a.duration_ms ? duration(a.duration_ms * 1000) : '',
    a.tool_calls ? count(a.tool_calls, 'call') : '', a.errors ? count(a.errors, 'error') : '',
    tokens ? compact(tokens) + ' tokens' : '', a.cost_usd ? dollars(a.cost_usd) : a.unpriced_calls ? 'no price' : ''];
  return el('div.turnhead',
    el('p.dim', time(a.started_at), ' · ', facts.filter(Boolean).join(' · '), page.status ? ' · ' + page.status : ''),
    page.undone_at ? el('p.doubt', 'Taken back at ', time(page.undone_at)) : null,
    el('p.dim', el('a', {href: to(['s', page.session_id])}, 'Session ' + page.session_id), ' · ', el('a', {href: to(['turn', page.turn], {in: 'repo'})}, 'in the repository')));
}

function firstBlocks(page, from, query) {
  const nodes = page.blocks.slice(from, from + BLOCKS_AT_ONCE).map((block) => blockNode(block, page, query));
  const next = from + BLOCKS_AT_ONCE;
  if (next >= page.blocks.length) return nodes;
  const button = el('button', {onclick: () => button.replaceWith(...firstBlocks(page, next, query))}, 'Show ' + whole(page.blocks.length - next) + ' more');
  return [...nodes, button];
}

function blockNode(block, page, query) {
  const drawn = {words: wordsNode, call: callNode, changes: changesNode, note: noteNode}[block.kind];
  const node = drawn ? drawn(block, page, query) : el('p.dim', block.kind);
  if (block.subagent_id) node.classList.add('subagent');
  return node;
}

function wordsNode(block) {
  const thought = block.author === 'thinking';
  const person = block.author === 'user';
  const body = [prose(block.text, person ? PROMPT_FOLDED : LINES_FOLDED), block.cut ? el('p.dim', 'Cut: it has ' + whole(block.cut) + ' characters. ', el('a', {href: to(['event', block.event_id])}, 'The event')) : null];
  if (thought) return el('details.block.thinking', el('summary', 'Thought'), body);
  return el('section.block.' + (person ? 'prompt' : 'words'), {'aria-label': person ? 'Prompt' : 'Words of the agent'}, body);
}

/** Plain text with its paragraphs; fences of code become boxes, long texts are folded. */
function prose(text, linesMax) {
  return text.split(/^```[^\n]*$/m).map((piece, n) => (piece.trim() ? (n % 2 ? foldedText(piece.replace(/^\n|\n$/g, ''), 'pre', linesMax) : foldedText(piece.trim(), 'p', linesMax)) : null));
}

function foldedText(text, kind, linesMax = LINES_FOLDED) {
  const attributes = kind === 'pre' ? {tabindex: '0'} : null;
  const lines = text.split('\n');
  const cut = lines.length > linesMax ? lines.slice(0, linesMax).join('\n') : text.length > 6000 ? text.slice(0, 5000) : text;
  const node = el(kind + '.text', attributes, cut);
  if (cut === text) return node;
  const words = lines.length > linesMax ? count(lines.length - linesMax, 'more line') : 'Show all';
  const button = el('button.more', {onclick: () => {
    node.textContent = '';
    node.append(el('span', text));
    button.remove();
  }}, words);
  return [node, button];
}

function callNode(block, page, query) {
  const state = block.success === false ? ['✗', 'failed'] : !block.ended ? ['…', 'no end recorded'] : ['●', block.success === null ? 'result unknown' : 'worked'];
  const changes = block.changes || [];
  const sums = [sum(changes, 'added'), sum(changes, 'removed')];
  return el('details.block.call', {open: block.success === false},
    el('summary', el('span.state' + (block.success === false ? '.bad' : ''), {title: state[1]}, state[0]), ' ',
      el('strong', oneLine(block.tool, 60)), ' ', el('span.target', oneLine(block.target || '', 300)), ' ',
      changes.length ? plusMinus(...sums) : null,
      el('span.dim', (block.duration_ms > 999 ? ' ' + duration(block.duration_ms * 1000) : '') + (block.success === false ? ' failed' : !block.ended ? ' no end recorded' : ''))),
    block.target && block.target.length > 300 ? foldedText(block.target, 'pre') : null,
    block.result ? foldedText(block.result, 'pre') : el('p.dim', 'No result is recorded.'),
    block.cut ? el('p.dim', 'Cut: it has ' + whole(block.cut) + ' characters.') : null,
    changeNodes(changes, page, query),
    el('p.dim', time(block.at), ' · ', el('a', {href: to(['event', block.event_id])}, 'The event')));
}

function changesNode(block, page, query) {
  return el('section.block.changes', {'aria-label': 'Changes without a call'}, el('h3', page.anchor.agent === 'git' ? 'Changed' : 'Changed, and no call explains it'), changeNodes(block.changes, page, query));
}

function changeNodes(changes, page, query) {
  const lines = changes.slice(0, CHANGES_LISTED).map((change) => {
    const link = fileLink(page.turn, change.path, 'change', query);
    return change.diff ? el('details.diff', el('summary', changeLine(change)), changeBox(rowsOfDiff(change.diff), change.path), el('p', el('a', {href: link}, 'Open the file')))
      : el('p', changeLine(change, link));
  });
  return [...lines, changes.length > CHANGES_LISTED ? el('p.dim', 'and ' + count(changes.length - CHANGES_LISTED, 'more file') + ': the tree marks them') : null];
}

function noteNode(block) {
  return el('p.block.note', oneLine(block.text, 400));
}

function sum(changes, key) {
  const known = changes.map((c) => c[key]).filter((n) => n !== null && n !== undefined);
  return known.length ? known.reduce((a, b) => a + b, 0) : null;
}

/** What a content without text says of itself. */
export function contentWords(content) {
  if (content.withheld) return 'Withheld: ' + content.withheld;
  if (content.erased) return 'Erased: ' + content.erased;
  if (content.damaged) return 'Damaged: ' + content.damaged;
  if (content.binary) return 'A binary file of ' + bytes(content.size) + '.';
  return content.text ? null : 'No text.';
}
