// A memory of answers.

/** Keeps the newest `size` answers by name: `get(name, make)` makes one where it is not there. */
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
