// The form of knobs. It keeps its elements while the values change, so that a slider that is being
// dragged stays under the hand.
import {h, unique} from './dom';
import {digits} from './format';
import {groups, knobs, type Knob, type Options, type Values} from './knobs';

const steps = 240; // of a slider

export function panel(options: Options, values: Values, changed: () => void): {element: HTMLElement; refresh: () => void} {
  const refreshers: (() => void)[] = [];

  const set = (key: string, value: string): void => {
    values[key] = value;
    // Another model has its own lengths.
    if (key === 'model') for (const own of ['seq_len', 'image_size']) delete values[own];
    refresh();
    changed();
  };

  function control(knob: Knob): HTMLElement {
    const id = unique('knob');
    if (knob.kind === 'choice') {
      const select = h('select', {id, name: knob.key});
      select.addEventListener('change', () => set(knob.key, select.value));
      let shown = '';
      refreshers.push(() => {
        const list = knob.choices!(options, values);
        const now = JSON.stringify(list);
        if (now !== shown) {
          select.replaceChildren(...list.map(([value, text]) => h('option', {value}, text)));
          shown = now;
        }
        const value = values[knob.key] ?? '';
        if (!list.some(([each]) => each === value)) {
          // What another machine or strategy does not have falls back to its first.
          values[knob.key] = list[0]?.[0] ?? '';
        }
        select.value = values[knob.key] ?? '';
      });
      return h('label', {class: knob.whole ? 'whole' : null, for: id}, h('span', {}, knob.label), select);
    }
    const range = options.limits[knob.key];
    const number = h('input', {id, name: knob.key, type: 'number', step: 'any', min: range?.[0], max: range?.[1], placeholder: knob.placeholder ?? (knob.start ? `${digits(knob.start)} (default)` : ''), inputmode: 'decimal'});
    number.addEventListener('input', () => set(knob.key, number.value));
    refreshers.push(() => {
      if (document.activeElement !== number) number.value = values[knob.key] ?? '';
    });
    if (knob.kind === 'number') return h('label', {class: knob.whole ? 'whole' : null, for: id}, h('span', {}, knob.label), number);

    const low = Math.log(knob.low!);
    const high = Math.log(knob.high!);
    const slider = h('input', {type: 'range', min: 0, max: steps, step: 1, 'aria-label': `${knob.label}, slider`, style: 'width:100%;accent-color:var(--accent)'});
    const rounded = (value: number): string => {
      if (knob.key === 'nodes') return String(Math.round(value));
      if (value >= 1e5) return String(Math.round(value / 1e5) * 1e5);
      return String(Number(value.toPrecision(2)));
    };
    slider.addEventListener('input', () => set(knob.key, rounded(Math.exp(low + ((high - low) * Number(slider.value)) / steps))));
    refreshers.push(() => {
      const value = Number(values[knob.key]) || knob.start!;
      if (document.activeElement !== slider) slider.value = String(Math.round((steps * (Math.log(value) - low)) / (high - low)));
    });
    return h('div', {class: 'whole', style: 'grid-column:1/-1'}, h('label', {for: id}, h('span', {}, knob.label), number), slider);
  }

  const form = h('form', {'aria-label': 'The scenario', onsubmit: (event: Event) => event.preventDefault()});
  for (const group of groups) {
    const fieldset = h('fieldset', {}, h('legend', {}, group));
    for (const knob of knobs.filter((each) => each.group === group)) {
      const element = control(knob);
      if (knob.when) refreshers.push(() => (element.hidden = !knob.when!(options, values)));
      fieldset.append(element);
    }
    form.append(fieldset);
  }
  const refresh = (): void => refreshers.forEach((each) => each());
  refresh();
  return {element: form, refresh};
}
