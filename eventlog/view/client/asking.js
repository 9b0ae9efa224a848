// Pages that ask again as one types or chooses: fields that stand in the address, and the newest answer.

import {el, refill} from './dom.js';
import {ask} from './source.js';
import {complain} from './frame.js';
import {to, writeAddress} from './address.js';

/** Asks by `answers(values, signal)` and fills `body` with `draw(answer)`; only what was wanted last counts. */
export function makeAsker(page, body, answers, draw) {
  return async (values) => {
    const signal = page.newest();
    page.busy();
    try {
      const answer = await answers(values, signal);
      if (signal.aborted) return;
      refill(body, draw(answer, values));
    } catch (failure) {
      if (signal.aborted) return;
      complain(body, failure);
    }
    page.done();
  };
}

/** The answers of one name, for `makeAsker`. */
export function asking(name) {
  return (values, signal) => ask(name, values, signal);
}

/** Form fields that stand in the address: each change writes it and calls `changed` with all values. */
export function filters(page, fields, changed) {
  const values = () => Object.fromEntries(inputs.map((i) => [i.name, i.type === 'checkbox' ? (i.checked ? 'yes' : '') : i.value]));
  const change = () => {
    writeAddress(to(page.parts, values()), false);
    changed(values());
  };
  const soon = () => page.later('filters', 200, change);
  const inputs = fields.map((field) => fieldOf(field, page.query.get(field.name) || '', change, soon));
  return el('form.filters', {onsubmit: (e) => e.preventDefault(), role: 'search'},
    inputs.map((input, n) => el('label', fields[n].label, ' ', input)));
}

function fieldOf({name, type = 'text', choices, required}, value, onchange, oninput) {
  if (!choices) {
    return type === 'checkbox' ? el('input', {name, type, checked: value === 'yes', onchange})
      : el('input', {name, type, value, onchange, oninput});
  }
  const shown = value && !choices.includes(value) ? [value, ...choices] : choices;
  return el('select', {name, onchange}, required ? null : el('option', {value: ''}, 'all'),
    shown.map((choice) => el('option', {value: choice, selected: choice === value}, choice)));
}
