// Begins: takes the token, builds the frame, and shows the page of the address; links are followed in place.

import {refill} from './dom.js';
import {ask, chooseStore, follow, isRecorded, recordedPlaces, takeToken} from './source.js';
import {linkWithin, readAddress, to, writeAddress} from './address.js';
import {complaint, makeFrame, namePage, nameStores, say} from './frame.js';
import {listenToKeys, useKeys} from './keys.js';
import {sessionsPage} from './sessions.js';
import {sliderPage} from './slider.js';
import {comparePage, decisionsPage, errorsPage, eventPage, historyPage, nowherePage, searchPage, sqlPage} from './pages.js';
import {costPage} from './cost.js';

const PAGES = {
  s: sliderPage, repo: sliderPage, turn: sliderPage, event: eventPage, file: historyPage, search: searchPage, cost: costPage,
  errors: errorsPage, decisions: decisionsPage, sql: sqlPage,
};
const app = {main: null, page: null, shown: 0, showing: false, missed: null, isLive: !isRecorded};

async function begin() {
  await takeToken();
  const {store} = readAddress();
  try {
    const {stores} = await ask('stores');
    const name = stores.length > 1 ? store || stores[0].name : '';
    chooseStore(name);
    linkWithin(name);
    if (name && !store) writeAddress(to([]), false);
    app.main = makeFrame(recordedPlaces() || stores[0].pages);
    if (stores[0].lake) app.isLive = false;
    nameStores(stores, name);
  } catch (failure) {
    refill(makeFrame([]), complaint(failure));
    document.body.dataset.ready = 'failed';
    return;
  }
  listenToKeys(() => go(to(['search'])));
  addEventListener('popstate', moved);
  if (isRecorded) addEventListener('hashchange', moved);
  document.addEventListener('click', clicked);
  await show();
  if (app.isLive) follow(app.page.until, heard);
}

/** A live event; one that comes while a page is being made counts once it is there. */
function heard(event) {
  app.missed = event;
  if (!app.showing) tell();
}

function tell() {
  const event = app.missed;
  app.missed = null;
  if (event && app.page.live) app.page.live(event);
}

function go(address) {
  writeAddress(address, true);
  return moved();
}

async function moved() {
  const address = readAddress();
  if (app.page && app.page.revisit && await app.page.revisit(address)) return;
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
  if (app.page) {
    app.page.abort.abort();
    if (app.page.leave) app.page.leave();
  }
  const address = readAddress();
  const page = makePage(address);
  app.page = page;
  app.showing = true;
  page.busy();
  useKeys({});
  try {
    await pageOfAddress(address)(page);
  } catch (failure) {
    if (failure.name === 'AbortError' || app.page !== page) return;
    if (failure.what === undefined) say('The page failed: ' + failure.message);
    namePage('Not shown', 'locus doctor', '');
    refill(app.main, complaint(failure));
  }
  page.done();
  if (app.page !== page) return;
  app.showing = false;
  tell();
}

function pageOfAddress({parts}) {
  if (!parts.length) return sessionsPage;
  if (parts[0] === 'turn' && (parts[1] || '').includes('..')) return comparePage;
  if (['s', 'turn', 'event'].includes(parts[0]) !== (parts.length === 2) || parts.length > 2) return nowherePage;
  return Object.hasOwn(PAGES, parts[0]) ? PAGES[parts[0]] : nowherePage;
}

/** What a page gets: its address, where to stand, and what it may set: `live`, `leave`, `revisit`. */
function makePage(address) {
  const abort = new AbortController();
  const main = app.main;
  refill(main);
  window.scrollTo(0, 0);
  const page = {...address, main, abort, signal: abort.signal, keys: useKeys, until: null, live: null, leave: null, revisit: null};
  page.busy = () => {
    if (app.page === page) delete document.body.dataset.ready;
  };
  page.done = () => {
    if (app.page === page) document.body.dataset.ready = String(++app.shown);
  };
  return page;
}

begin();
