// The spine grows while an agent works: the part that differs is asked for, and takes the place of what it replaces.

import {ask} from './source.js';

/** Asks for what was recorded meanwhile; who stands at the end moves on, who stands elsewhere stays. */
export async function grow(slider) {
  const {answer, session} = slider.position;
  const {signal} = slider.page;
  try {
    const part = await ask('spine', {session, after: answer.until}, signal);
    const whole = part.from ? joined(answer, part) : part;
    if (whole.until >= slider.position.answer.until) await goOn(slider, whole, part.from ? part.from.turns : 0);
  } catch (failure) {
    if (failure.what === undefined && failure.name !== 'AbortError') throw failure;
    // What could not be asked for is asked for with the next event.
  }
}

/** Goes on with a longer spine, of which the turns from a number on differ. */
async function goOn(slider, answer, first) {
  const {position, pages, reading} = slider;
  const {turn, side, last, spine} = position;
  const isAtEnd = turn >= last;
  const name = spine.turns.length ? position.name : null;
  for (const {name: changed} of spine.turns.slice(first)) pages.forget(changed);
  slider.take(answer);
  const stayed = position.find(name);
  const added = position.last - last;
  if (!isAtEnd) slider.fresh += Math.max(added, 0);
  const {scrollTop} = reading;
  await slider.stand(isAtEnd || stayed < 0 ? position.last : stayed, {side, address: isAtEnd && added > 0});
  if (!added || !isAtEnd) reading.scrollTop = scrollTop;
}

/** The spine as it is now, from an earlier one and the part that differs (docs/view.md). */
export function joined(before, part) {
  const {turns, stops, hashes, paths: size} = part.from;
  const kept = before.changes.slice(0, stops);
  const used = new Set(kept.flat().flatMap(([path, , , , , old]) => (old === null ? [path] : [path, old])));
  const paths = new Array(size);
  for (const [number, path] of part.paths) paths[number] = path;
  // Paths that are kept have the places that are left, in their order: both lists are sorted.
  const numbers = new Map();
  let place = 0;
  for (const number of [...used].sort((a, b) => a - b)) {
    while (paths[place] !== undefined) place++;
    paths[place] = before.paths[number];
    numbers.set(number, place);
  }
  const renumbered = ([path, hash, bytes, kind, operation, old]) => [numbers.get(path), hash, bytes, kind, operation, old === null ? null : numbers.get(old)];
  const {from, ...rest} = part;
  return {
    ...rest, paths,
    hashes: [...before.hashes.slice(0, hashes), ...part.hashes],
    turns: [...before.turns.slice(0, turns), ...part.turns],
    stops: [...before.stops.slice(0, stops), ...part.stops],
    changes: [...kept.map((changes) => changes.map(renumbered)), ...part.changes],
  };
}
