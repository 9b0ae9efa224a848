// What differs between two moments.

import {ask} from './source.js';
import {changedFile, fileLink} from './changes.js';

/** A file that differs between two moments, as in the answer `compare`. `query` makes the link one to its change. */
export function comparedFile(file, [a, b], signal, query) {
  // a text is where it was last, a change where it is over
  const link = query ? fileLink(b, file.path, 'change', query) : fileLink(file.operation === 'delete' ? a : b, file.path, 'text');
  return changedFile('compared', file, link, () => linesBetween(a, b, file.path, signal));
}

/** The lines of a file that differ: `{rows, why}`, as for `changedFile`. */
export async function linesBetween(a, b, path, signal) {
  const {hunks, why} = await ask('change', {a, b, path}, signal);
  return {rows: hunks.flatMap((hunk) => [['@', null, null, hunk.header], ...hunk.lines]), why};
}
