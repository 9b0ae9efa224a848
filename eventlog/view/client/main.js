// Begins: takes the token, builds the frame, and shows the page of the address; links are followed in place.
// The modules of a page are loaded when somebody goes there.

import {el, refill} from './dom.js';
import {ask, chooseStore, isRecorded, recordedPlaces, takeToken} from './source.js';
import {linkBy, linkWithin, readAddress, to, writeAddress} from './address.js';
import {complain, makeFrame, namePage} from './frame.js';
import {listenToKeys, useKeys} from './keys.js';

const slider = () => import('./slider.js');
const PAGES = {
  s: slider, repo: slider, turn: slider, event: () => import('./event.js'), file: () => import('./filehistory.js'),
  search: () => import('./search.js'), cost: () => import('./cost.js'), errors: () => import('./errors.js'),
  decisions: () => import('./decisions.js'), sql: () => import('./sql.js'),
};
const SLOW_MS = 600;
const WITH_NAME = ['s', 'turn', 'event'];
const app = {main: null, page: null, isLive: false, shown: 0, isBehind: false};

async function begin() {
  await takeToken();
  // On its way meanwhile; when the page is shown, what is wrong with it shows.
  moduleOf(readAddress()).catch(() => {});
  try {
    await makeApp(await ask('stores'));
  } catch (failure) {
    complain(makeFrame(null, []), failure);
    document.body.dataset.ready = 'failed';
    return;
  }
  listenToKeys(() => go(to(['search'])));
  addEventListener('popstate', moved);
  if (isRecorded) addEventListener('hashchange', moved);
  document.addEventListener('click', clicked);
  await show();
  if (app.isLive) (await import('./live.js')).follow(app.page.until, heard);
}

/** The frame, around the store that the address names, the first one, or a lake. */
async function makeApp({stores}) {
  const [first] = stores;
  const {store} = readAddress();
  const name = stores.length > 1 ? store || first.name : '';
  chooseStore(name);
  linkWithin(name);
  if (name && !store) writeAddress(to([]), false);
  const project = name ? (await import('./stores.js')).storeChoice(stores, name) : el('span.project', first.project);
  const lake = first.lake ? await import('./lake.js') : null;
  if (lake) linkBy(lake.linkInLake);
  app.main = makeFrame(project, recordedPlaces() || first.pages, lake && ((command, place) => lake.commandInLake(first, command, place)));
  app.isLive = !lake && !isRecorded;
}

/** Something was recorded; while a page is being made that counts once it is there. */
function heard() {
  app.isBehind = true;
  if (app.page.isMade) catchUp();
}

function catchUp() {
  if (app.isBehind && app.page.live) app.page.live();
  app.isBehind = false;
}

function go(address) {
  writeAddress(address, true);
  return moved();
}

async function moved() {
  if (app.page.revisit && await app.page.revisit(readAddress())) return;
  await show();
}

function clicked(event) {
  const link = event.target.closest && event.target.closest('a[href]');
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const href = link.getAttribute('href');
  if (isRecorded || !href.startsWith('/')) return;
  event.preventDefault();
  go(href);
}

async function show() {
  if (app.page) app.page.leave();
  const page = makePage(readAddress());
  app.page = page;
  refill(app.main);
  window.scrollTo(0, 0);
  page.busy();
  useKeys([], null);
  try {
    await (await moduleOf(page)).show(page);
  } catch (failure) {
    if (failure.name === 'AbortError' || app.page !== page) return;
    namePage('Not shown', 'locus doctor', '');
    complain(app.main, failure);
  }
  page.done();
  page.isMade = true;
  if (app.page === page) catchUp();
}

function moduleOf({parts: [place, name, more]}) {
  if (!place) return import('./sessions.js');
  const known = Object.hasOwn(PAGES, place) && more === undefined && WITH_NAME.includes(place) === (name !== undefined);
  if (!known) return import('./nowhere.js');
  return place === 'turn' && name.includes('..') ? import('./compare.js') : PAGES[place]();
}

/**
 * What a page gets: its address, the element to stand in, and signals and timers that end with it. It may set `live` (a live event came), `revisit` (gives whether it went to an address by itself), and `until`.
 */
function makePage(address) {
  const ending = new AbortController();
  let newest = new AbortController();
  const timers = new Map();
  const page = {...address, main: app.main, signal: ending.signal, keys: useKeys, isMade: false, until: null, live: null, revisit: null};
  /** Does something later; by one name only what was wanted last, nothing without `act`. */
  page.later = (name, ms, act) => {
    clearTimeout(timers.get(name));
    if (act) timers.set(name, setTimeout(act, ms));
  };
  /** A signal for what is wanted from now on: what was wanted before is given up. */
  page.newest = () => {
    newest.abort();
    newest = new AbortController();
    return newest.signal;
  };
  page.leave = () => {
    ending.abort();
    newest.abort();
    for (const timer of timers.values()) clearTimeout(timer);
  };
  page.busy = () => {
    if (app.page !== page) return;
    delete document.body.dataset.ready;
    page.later('slow', SLOW_MS, () => {
      page.isSlow = true;
      refill(app.main.nextSibling, 'Reading…');
    });
  };
  page.done = () => {
    page.later('slow');
    if (page.isSlow) refill(app.main.nextSibling);
    if (app.page === page) document.body.dataset.ready = String(++app.shown);
  };
  return page;
}

begin();
