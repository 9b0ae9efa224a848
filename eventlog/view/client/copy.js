// Copies a text.

import {say} from './frame.js';

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    say('Copied: ' + text);
  } catch {
    say('This browser does not let the page copy; select the text instead.');
  }
}
