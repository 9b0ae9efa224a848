// The slider goes on by itself.

import {refill} from './dom.js';

const PLAY_MS = 700;

/** Begins, or rests; `button` says which. */
export function play(slider, button) {
  const {page, position} = slider;
  const showPlaying = (isPlaying) => {
    button.setAttribute('aria-pressed', String(isPlaying));
    refill(button, isPlaying ? '❚❚' : '▷');
  };
  const later = () => page.later('play', PLAY_MS, () => {
    if (position.turn >= position.last) return showPlaying(false);
    slider.stand(position.turn + 1);
    later();
  });
  const begins = button.getAttribute('aria-pressed') === 'false';
  showPlaying(begins);
  if (!begins) return page.later('play');
  if (position.turn === position.last) slider.stand(0);
  later();
}
