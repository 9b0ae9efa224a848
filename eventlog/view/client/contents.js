// Contents of files, and a memory of answers.

import {ask} from './source.js';
import {bytes} from './words.js';

const CONTENTS_KEPT = 40;
const contents = makeMemory(CONTENTS_KEPT);

/** Keeps the newest `size` answers by name: `get(name, make)` makes one, where it is not there. */
export function makeMemory(size) {
  const kept = new Map();
  const get = async (name, make) => {
    if (!kept.has(name)) {
      kept.set(name, await make());
      if (kept.size > size) kept.delete(kept.keys().next().value);
    }
    return kept.get(name);
  };
  return {get, forget: (name) => kept.delete(name)};
}

/** A content by its hash. With `coloured` it has the colours of a long text, too, which take time. */
export async function contentOf(hash, path, signal, coloured) {
  const name = hash + ':' + path;
  const get = () => contents.get(name, () => ask('content/' + hash, {path, colour: coloured}, signal));
  const content = await get();
  if (!coloured || content.coloured) return content;
  contents.forget(name);
  return get();
}

/** What a content without text says of itself; null where it has one. */
export function contentWords(content) {
  if (content.withheld) return 'Withheld: ' + content.withheld;
  if (content.erased) return 'Erased: ' + content.erased;
  if (content.damaged) return 'Damaged: ' + content.damaged;
  if (content.binary) return 'A binary file of ' + bytes(content.size) + '.';
  return content.text ? null : 'No text.';
}
