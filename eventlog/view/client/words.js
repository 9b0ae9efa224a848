// How figures, times and counts are written; what this browser remembers. An unknown figure is an empty text.

import {el} from './dom.js';

const settings = {utc: remembered('utc') === 'yes'};
const clocks = {};

/** A value that this browser keeps for this address; null where there is none or none may be kept. */
export function remembered(key) {
  try {
    return localStorage.getItem('locus-' + key);
  } catch {
    return null;
  }
}

export function remember(key, value) {
  try {
    localStorage.setItem('locus-' + key, value);
  } catch {
    // A page without storage works, and forgets.
  }
}

/** Whether there is a value: null, undefined and an empty text are none. */
export function isGiven(value) {
  return value !== null && value !== undefined && value !== '';
}

/** `1,234`. */
export function whole(n) {
  return isGiven(n) ? Math.round(n).toLocaleString('en-US') : '';
}

/** `950`, `12.3 k`, `4.5 M`. */
export function compact(n) {
  if (!isGiven(n)) return '';
  if (n < 1000) return String(Number(Number(n).toFixed(2)));
  let unit = '';
  for (unit of ['k', 'M', 'G', 'T']) {
    n /= 1000;
    if (n < 999.5) break;
  }
  return (n >= 100 || Number.isInteger(n) ? n.toFixed(0) : n.toFixed(1)) + ' ' + unit;
}

/** `$1,234.56`; what is less than a cent is `<$0.01`, and what caching lost is below 0. */
export function dollars(cost) {
  if (!isGiven(cost)) return '';
  const size = Math.abs(Number(cost));
  if (size > 0 && size < 0.005) return '<$0.01';
  return (cost < 0 ? '−$' : '$') + size.toLocaleString('en-US', {minimumFractionDigits: 2, maximumFractionDigits: 2});
}

/** `320 ms`, `12 s`, `4 min`, `3.2 h`, `2.5 d`. */
export function duration(us) {
  if (!isGiven(us)) return '';
  const seconds = us / 1e6;
  if (seconds < 1) return Math.round(seconds * 1000) + ' ms';
  if (seconds < 120) return Math.round(seconds) + ' s';
  if (seconds < 7200) return Math.round(seconds / 60) + ' min';
  if (seconds < 172800) return (seconds / 3600).toFixed(1) + ' h';
  return (seconds / 86400).toFixed(1) + ' d';
}

/** `12 B`, `3.4 kB`. */
export function bytes(n) {
  return isGiven(n) ? (n < 1000 ? n + ' ' : compact(n)) + 'B' : '';
}

/** `1 turn`, `3 turns`. */
export function count(n, word) {
  return whole(n) + ' ' + word + (n === 1 ? '' : 's');
}

/** The texts that there are, with points between them. */
export function listed(...texts) {
  return texts.flat().filter(Boolean).join(' · ');
}

/** Lines added and removed, as text that needs no colour. */
export function plusMinus(added, removed) {
  if (!isGiven(added)) return null;
  return [added ? el('span.plus', '+' + whole(added)) : null, added && removed ? ' ' : null,
    removed ? el('span.minus', '−' + whole(removed)) : null];
}

/** A time that says its zone, with the other spelling where the pointer rests. */
export function time(us) {
  if (!isGiven(us)) return el('span.dim', 'time unknown');
  return writeTime(el('time', {'data-us': us, datetime: new Date(us / 1000).toISOString()}), us);
}

export function isUtc() {
  return settings.utc;
}

/** Switches between local times and UTC, in place. */
export function switchUtc() {
  settings.utc = !settings.utc;
  remember('utc', settings.utc ? 'yes' : 'no');
  for (const node of document.querySelectorAll('time[data-us]')) writeTime(node, Number(node.dataset.us));
}

function writeTime(node, us) {
  node.textContent = timeText(us, settings.utc);
  node.title = timeText(us, !settings.utc);
  return node;
}

function timeText(us, utc) {
  const date = new Date(us / 1000);
  const isThisYear = date.getFullYear() === new Date().getFullYear();
  return clock(utc ? 'UTC' : undefined, isThisYear ? undefined : 'numeric').format(date).replace(',', '');
}

function clock(timeZone, year) {
  const key = timeZone + ' ' + year;
  clocks[key] ??= new Intl.DateTimeFormat('en-GB', {
    day: 'numeric', month: 'short', year, hour: '2-digit', minute: '2-digit', hourCycle: 'h23', timeZone, timeZoneName: 'short'});
  return clocks[key];
}
