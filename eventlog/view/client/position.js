// Where a reader stands: a turn, its start or its end, and a file. Knows the spine; draws nothing, asks nothing.

import {makeSpine, marksAt} from './spine.js';
import {fileLink} from './changes.js';
import {to} from './address.js';
import {remember, remembered} from './words.js';

const MODES = ['text', 'change', 'blame', 'history'];
const BETWEEN = 'Changed between the turn before and this one';

export class Position {
  /** `session` is null for all turns of the repository; `marked` is a moment to compare with, or null. */
  constructor(session) {
    this.session = session;
    // of all links to turns
    this.query = session ? {} : {in: 'repo'};
    this.home = session ? 'Sessions' : 'Repository';
    this.marked = null;
  }

  take(answer) {
    this.answer = answer;
    this.spine = makeSpine(answer);
  }

  /** Stands at a turn, or at the nearest that there is; at its end where its start is not known. */
  stand(turn, side) {
    const {spine} = this;
    this.turn = Math.max(Math.min(turn, this.last), 0);
    const stops = spine.ofTurn[this.turn] || {start: null, end: null};
    this.side = side === 'start' && stops.start !== null ? 'start' : 'end';
    this.stop = stops[this.side] === null ? null : spine.stops[stops[this.side]];
    if (this.stop) spine.move(stops[this.side]);
    this.marks = this.stop ? marksAt(spine, stops[this.side]) : new Map();
  }

  /** Chooses a file by its path, or none. */
  choose(path, mode = 'text', line = null) {
    Object.assign(this, {path, mode, line});
  }

  chooseBy(query) {
    const mode = query.get('mode');
    this.event = query.get('event');
    this.choose(query.get('file'), MODES.includes(mode) ? mode : 'text', Number(query.get('line')) || null);
  }

  get last() {
    return this.spine.turns.length - 1;
  }

  /** The last turn of the session that was seen, now or on another day; -1 where none was, and of the repository. */
  get seen() {
    return this.session ? this.find(remembered('seen-' + this.session)) : -1;
  }

  see() {
    if (this.session && this.turn > this.seen) remember('seen-' + this.session, this.name);
  }

  /** The number of a turn by its name; -1 where it is not here. */
  find(name) {
    return this.spine.turns.findIndex((turn) => turn.name === name);
  }

  get name() {
    return this.spine.turns[this.turn].name;
  }

  get moment() {
    return this.name + (this.side === 'start' ? '@start' : '');
  }

  /** The number of the chosen path; undefined where there is none, or the spine does not have it. */
  get file() {
    return this.spine.number.get(this.path);
  }

  get address() {
    return this.path === null ? to(['turn', this.moment], this.query) : fileLink(this.moment, this.path, this.mode, {line: this.line, ...this.query});
  }

  /** Everything of the chosen file that its pane needs; null where none is chosen. */
  filePlace(signal) {
    if (this.path === null) return null;
    const {spine, file, path, mode, line, query, moment} = this;
    const entry = spine.files.entries[file];
    const mark = this.marks.get(file);
    const hash = entry && entry[1];
    return {
      path, mode, line, query, signal, moment, entry, hash: spine.hashes[hash], withheld: spine.withheld[hash],
      reason: entry && entry[3] === 's' ? spine.reasons[file] || 'the reason is not known' : null,
      deleted: mark && mark.operation === 'D', old: this.oldPath(mark), after: moment, ...this.sides(mark),
    };
  }

  oldPath(mark) {
    return mark && mark.operation === 'R' && mark.old !== null ? this.spine.paths[mark.old] : null;
  }

  /** The moments between which a file changed: from the marked one, the start of the turn, or the end of the one before. */
  sides(mark) {
    const {marked, moment, name, side} = this;
    if (marked && marked !== moment) return {before: marked, beforeWords: `Compared with the marked moment ${marked} (c marks another, or none)`};
    const earlier = this.turn > 0 ? this.spine.turns[this.turn - 1].name : null;
    if (side === 'start') return {before: earlier, beforeWords: BETWEEN};
    if (mark && mark.between) return {before: earlier, after: name + '@start', beforeWords: BETWEEN};
    const {start, end} = this.spine.ofTurn[this.turn];
    if (start !== null && start !== end) return {before: name + '@start', beforeWords: 'Changed by this turn'};
    return {before: earlier, beforeWords: 'Compared with the end of the turn before'};
  }
}
