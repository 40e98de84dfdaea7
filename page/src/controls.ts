// A labelled choice for a card's head.
import {h} from './dom';

export function choice(label: string, options: {value: string; text: string}[], value: string, act: (value: string) => void): HTMLElement {
  const select = h('select', {}, ...options.map((o) => h('option', {value: o.value, selected: o.value === value}, o.text)));
  select.addEventListener('change', () => act(select.value));
  return h('label', {}, label, select);
}
