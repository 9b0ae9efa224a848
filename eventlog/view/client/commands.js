// The commands that show the same in a terminal.

/** A word of a command, quoted for a shell; what could deceive in a terminal is written as bytes. */
export function shellWord(text) {
  if (/^[A-Za-z0-9_@%+=:,.\/-]+$/.test(text)) return text;
  if (/^[\x20-\x7e\u00a1-\u05ff]+$/.test(text)) return "'" + text.replaceAll("'", "'\\''") + "'";
  const escaped = Array.from(new TextEncoder().encode(text), (byte) => {
    if (byte === 10) return '\\n';
    const c = String.fromCharCode(byte);
    return byte < 32 || byte > 126 ? '\\x' + byte.toString(16).padStart(2, '0') : c === "'" || c === '\\' ? '\\' + c : c;
  });
  return "$'" + escaped.join('') + "'";
}

/** A file at a moment; `place`: path, moment, mode, before, after. */
export function fileCommand(place) {
  const path = shellWord(place.path);
  if (place.mode === 'history') return 'locus history ' + path;
  if (place.mode === 'blame') return 'locus blame --at ' + shellWord(place.moment.split('@')[0]) + ' ' + path;
  return place.mode === 'change' && place.before ? changeCommand(place.before, place.after, place.path) : cat(place.moment, place.path);
}

/** `locus diff` of two moments; of a turn's own start and end it is that of the turn. */
export function changeCommand(before, after, path) {
  const turns = before === after + '@start' ? [after] : [before, after];
  if (!turns.some((moment) => moment.includes('@'))) return ['locus diff', ...turns.map(shellWord), ...(path ? [shellWord(path)] : [])].join(' ');
  return path ? `diff <(${cat(before, path)}) <(${cat(after, path)})` : 'locus show ' + shellWord(after.split('@')[0]);
}

function cat(moment, path) {
  const [turn, at] = moment.split('@');
  return 'locus cat ' + (at ? '--at ' + at + ' ' : '') + shellWord(turn + ':' + path);
}
