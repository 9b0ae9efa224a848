// Contents of files.

import {ask} from './source.js';
import {makeMemory} from './memory.js';
import {bytes} from './words.js';

const CONTENTS_KEPT = 40;
const contents = makeMemory(CONTENTS_KEPT);

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
