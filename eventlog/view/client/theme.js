// Light, dark, or as the system.

import {remember} from './words.js';
import {say} from './frame.js';

/** To the next of the three. */
export function changeTheme() {
  const next = {'': 'dark', dark: 'light', light: ''}[document.documentElement.dataset.theme];
  remember('theme', next);
  document.documentElement.dataset.theme = next;
  say('Colours: ' + (next || 'as the system'));
}
