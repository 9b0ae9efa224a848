// What the tools of the frame do once they are used.

import {refill} from './dom.js';
import {remember} from './words.js';

const state = {timer: 0};

/** A line that is read out and fades. */
export function say(words) {
  const note = document.querySelector('.note');
  refill(note, words);
  clearTimeout(state.timer);
  state.timer = setTimeout(() => refill(note), 4000);
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    say('Copied: ' + text);
  } catch {
    say('This browser does not let the page copy; select the text instead.');
  }
}

/** Light, dark, or as the system: to the next of the three. */
export function changeTheme() {
  const next = {'': 'dark', dark: 'light', light: ''}[document.documentElement.dataset.theme];
  remember('theme', next);
  document.documentElement.dataset.theme = next;
  say('Colours: ' + (next || 'as the system'));
}
