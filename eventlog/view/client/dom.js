// Elements made from data. Recorded text is foreign: it only ever becomes text, and what could deceive a
// reader is spelled out. Nothing else in the client makes elements.

// Control characters, marks of direction and halves of characters, as in the report; not line break and tab.
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]/gu;
// What Python's str.split takes for space.
const SPACE = /[\t-\r\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/g;
const SVG = 'http://www.w3.org/2000/svg';
const RAW = new Set(['href', 'id', 'value', 'd', 'for']);

/** Foreign text with its line breaks and tabs, harmless otherwise. */
export function spell(text) {
  return String(text).replace(/\r\n/g, '\n').replace(UNSAFE, (c) => '\\u' + c.codePointAt(0).toString(16).padStart(4, '0'));
}

/** Foreign text on one line, of at most `size` characters. */
export function oneLine(text, size = 160) {
  const line = spell(String(text).replace(SPACE, ' ').replace(/^ | $/g, ''));
  return line.length <= size ? line : line.slice(0, size - 1) + '…';
}

/** An element: `el('td.number', {title: 'x', onclick: f}, 'text', node, [more], null)`; attributes may be left out. */
export function el(kind, ...inside) {
  const [name, ...classes] = kind.split('.');
  return filled(document.createElement(name), classes, inside);
}

/** The same for a drawing. */
export function svg(kind, ...inside) {
  const [name, ...classes] = kind.split('.');
  return filled(document.createElementNS(SVG, name), classes, inside);
}

function filled(node, classes, [first, ...rest]) {
  const attributes = first && first.constructor === Object ? first : {};
  if (classes.length) node.setAttribute('class', classes.join(' '));
  for (const [key, value] of Object.entries(attributes)) {
    if (isAbsent(value)) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (key === 'value') node.value = value;
    else node.setAttribute(key, value === true ? '' : RAW.has(key) ? value : spell(value));
  }
  return put(node, attributes === first ? rest : [first, ...rest]);
}

/** Adds children: nodes, texts, lists of them; null and undefined are left out. */
function put(node, children) {
  for (const child of [children].flat(Infinity)) {
    if (isAbsent(child)) continue;
    node.append(child instanceof Node ? child : document.createTextNode(spell(child)));
  }
  return node;
}

function isAbsent(value) {
  return value === null || value === undefined || value === false;
}

/** The same node with other children. */
export function refill(node, ...children) {
  node.replaceChildren();
  return put(node, children);
}

/** Words that are not always there. */
export function showWords(node, words) {
  refill(node, words || null);
  node.hidden = !words;
}

/** Buttons of which one is pressed: `{node, buttons, press(name)}`; `names`: `{start: 'Start'}`, the names in `data-KIND`. */
export function makeChoice(kind, label, names, choose) {
  const buttons = Object.entries(names).map(([name, words]) => el('button', {['data-' + kind]: name, onclick: () => choose(name)}, words));
  const press = (name) => {
    for (const button of buttons) button.setAttribute('aria-pressed', String(button.dataset[kind] === name));
  };
  return {node: el(`div.${kind}s`, {role: 'group', 'aria-label': label}, buttons), buttons, press};
}
