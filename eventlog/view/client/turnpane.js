// A turn to read: the prompt, words, calls with folded results, and changes (docs/reading.md).

import {el, oneLine, refill} from './dom.js';
import {compact, count, dollars, duration, isGiven, listed, plusMinus, time, whole} from './words.js';
import {changedFile, changeLine, fileLink} from './changes.js';
import {inParts} from './list.js';
import {isRecorded} from './source.js';
import {to} from './address.js';

const BLOCKS_AT_ONCE = 300;
const LINES_FOLDED = 40;
const PROMPT_FOLDED = 16;
const TEXT_FOLDED = 6000;
const CHANGES_LISTED = 40;
const MARKED = /(\x60[^\x60\n]+\x60|\*\*[^*\n]+\*\*|^#{1,6} .+$)/m;
const KINDS = {words: wordsNode, call: callNode, changes: changesNode, note: (block) => el('p.block.dim', oneLine(block.text, 400))};

/** Everything of `page`, the answer of `/api/page`; `query` is that of links to turns. */
export function turnNodes(page, query) {
  return [turnHead(page), inParts(page.blocks, BLOCKS_AT_ONCE, (block) => blockNode(block, page, query), 'block'),
    !page.blocks.length && el('p.dim', 'Nothing else is recorded of this turn.')];
}

function turnHead({anchor: a, turn, session_id: session, status, undone_at: undone}) {
  const tokens = (a.prompt_tokens || 0) + (a.completion_tokens || 0);
  const facts = listed((a.models || []).join(', '), a.duration_ms && duration(a.duration_ms * 1000), a.tool_calls && count(a.tool_calls, 'call'),
    tokens && compact(tokens) + ' tokens', a.cost_usd ? dollars(a.cost_usd) : a.unpriced_calls && 'no price', status);
  return el('div.turnhead', el('p.dim', facts), undone && el('p.doubt', 'Taken back at ', time(undone)),
    el('p.dim', el('a', {href: to(['s', session])}, 'Session ' + session), elsewhere(['turn', turn], 'in the repository', {in: 'repo'})));
}

function blockNode(block, page, query) {
  const node = KINDS[block.kind] ? KINDS[block.kind](block, page, query) : el('p.dim', block.kind);
  node.id = 'e' + block.event_id;
  if (block.subagent_id) node.classList.add('subagent');
  return node;
}

/** A link to a page that no file has. */
function elsewhere(place, words, query) {
  return !isRecorded && [' · ', el('a', {href: to(place, query)}, words)];
}

function eventLink(block) {
  return elsewhere(['event', block.event_id], 'The event');
}

function cutNode(block) {
  return block.cut && el('p.dim', 'Cut: it has ' + whole(block.cut) + ' characters', eventLink(block));
}

function wordsNode(block) {
  const isPrompt = block.author === 'user';
  const body = [prose(block.text, isPrompt ? PROMPT_FOLDED : LINES_FOLDED), cutNode(block)];
  if (block.author === 'thinking') return el('details.block.thinking', el('summary', 'Thought'), body);
  return el('section.block.' + (isPrompt ? 'prompt' : 'words'), {'aria-label': isPrompt ? 'Prompt' : 'Words of the agent'}, body);
}

/** Text with its paragraphs; fences of code become boxes, long texts are folded. */
function prose(text, linesMax) {
  return text.split(/^```[^\n]*$/m).map((piece, n) => piece.trim() &&
    foldedText(...(n % 2 ? [piece.replace(/^\n|\n$/g, ''), 'pre'] : [piece.trim(), 'p']), linesMax));
}

function foldedText(text, kind, linesMax = LINES_FOLDED) {
  const shown = text.split('\n', linesMax).join('\n').slice(0, TEXT_FOLDED);
  const spelled = kind === 'pre' ? String : marked;
  const node = el(kind + '.text', {tabindex: kind === 'pre' && '0'}, spelled(shown));
  if (shown === text) return node;
  const button = el('button.more', {onclick: () => {
    refill(node, spelled(text));
    button.remove();
  }}, 'Show all ' + count(text.split('\n').length, 'line'));
  return [node, button];
}

/** Code, bold words and headings of Markdown; everything else as it is written. */
function marked(text) {
  return text.split(MARKED).map((piece, n) => (!(n % 2) ? piece : piece[0] === '\x60' ? el('code', piece.slice(1, -1)) :
    el('strong', piece.replace(/^#+ |^\*\*|\*\*$/g, ''))));
}

function callNode(block, page, query) {
  const hasFailed = block.success === false;
  const {changes} = block;
  const [sign, words] = hasFailed ? ['✗', 'failed'] : !block.ended ? ['…', 'no end recorded'] : ['●', block.success === null ? 'result unknown' : 'worked'];
  const isPlain = block.ended && !hasFailed;
  return el('details.block.call', {open: hasFailed},
    el('summary', el('span.state' + (hasFailed ? '.bad' : ''), {title: words}, sign), ' ', el('strong', oneLine(block.tool, 60)), ' ',
      el('span.target', oneLine(block.target || '', 300)), ' ', plusMinus(sum(changes, 'added'), sum(changes, 'removed')),
      el('span.dim', (block.duration_ms > 999 ? ' ' + duration(block.duration_ms * 1000) : '') + (isPlain ? '' : ' ' + words))),
    block.target && block.target.length > 300 && foldedText(block.target, 'pre'),
    block.result ? foldedText(block.result, 'pre') : el('p.dim', 'No result is recorded.'),
    cutNode(block), changeNodes(changes, page, query), el('p.dim', time(block.at), eventLink(block)));
}

function sum(changes, key) {
  const known = changes.map((change) => change[key]).filter(isGiven);
  return known.length ? known.reduce((a, b) => a + b) : null;
}

function changesNode(block, page, query) {
  const words = page.anchor.agent === 'git' ? 'Changed' : 'Changed, and no call explains it';
  return el('section.block.changes', {'aria-label': 'Changes without a call'}, el('h3', words), changeNodes(block.changes, page, query));
}

function changeNodes(changes, page, query) {
  return inParts(changes, CHANGES_LISTED, (change) => {
    const link = fileLink(page.turn, change.path, 'change', query);
    return change.diff ? changedFile('diff', change, link, () => recordedLines(change)) : el('p', changeLine(change, link));
  }, 'file');
}

async function recordedLines({diff}) {
  return {rows: (await import('./diffs.js')).rowsOfDiff(diff)};
}
