// A lake has events, and no pages of sessions, turns, events and files: links and commands ask for what it has.

import {isGiven} from './words.js';
import {shellWord} from './commands.js';

/** What a link to a page leads to, `[parts, query]`: of what a lake has no page of, the events, in SQL. */
export function linkInLake([kind, name], query) {
  const text = (value) => "'" + value.replaceAll("'", "''") + "'";
  const [session, turn] = kind === 'turn' ? name.split('@')[0].split('_') : [name];
  const condition = {
    s: () => `session_id = ${text(session)}`, turn: () => `session_id = ${text(session)} and turn_id = ${text(turn)}`,
    event: () => `event_id = ${text(name)}`, file: () => `path = ${text(query.path)}`,
  }[kind];
  return condition ? [['sql'], {q: `select * from events where ${condition()} order by position`}] : [[kind, name].filter(isGiven), query];
}

/** The command that asks a lake for what a page shows: a view of SQL has the name of its page. */
export function commandInLake({lake, pages}, command, place) {
  const view = pages.includes(place) ? `locus sql 'from ${place.toLowerCase()}'` : 'locus view';
  const asked = /^locus (stats|sql) /.test(command) ? command : view;
  return asked.replace(/^locus \w+/, (verb) => verb + ' --lake ' + shellWord(lake));
}
