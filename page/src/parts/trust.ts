// How far to trust it: provenance of the step's seconds, the interval's parts, notes.
import type {Interval} from '../document';
import {h} from '../dom';
import {percent, secondsRange} from '../format';
import {card} from '../shell';

const colours: Record<string, string> = {measured: 'good', modelled: 'bwd', extrapolated: 'ag', assumed: 'rs'};

export function trustCard(forecast: any, interval: Interval): HTMLElement {
  const provenance = Object.entries(forecast.provenance as Record<string, number>);
  const total = provenance.reduce((sum, [, s]) => sum + s, 0) || 1;
  const bar = h(
    'div',
    {class: 'stack', role: 'img', 'aria-label': 'Provenance of the step’s time', style: 'height:16px;margin-bottom:6px'},
    ...provenance
      .filter(([, s]) => s > 0)
      .map(([name, s]) => h('span', {style: `flex:${s / total} 1 0;background:var(--${colours[name] ?? 'cp'})`, title: name})),
  );
  const share = (s: number): string => (s > 0 && s / total < 0.001 ? '< 0.1 %' : percent(s / total));
  const legend = h(
    'div',
    {class: 'legend'},
    ...provenance.map(([name, s]) => h('span', {}, h('span', {class: 'swatch', style: `background:var(--${colours[name] ?? 'cp'})`}), `${name} ${share(s)}`)),
  );
  const spread = h(
    'p',
    {class: 'subtitle', style: 'margin-top:12px'},
    `8 steps in 10 take ${secondsRange(interval.low_s, interval.high_s)}. Standard deviations: software profile ${percent(interval.profile)}` +
      `${interval.borrowed ? ' (this one was not fitted to measured steps: as fitted ones differ)' : ''}, ` +
      `kernels ${percent(interval.kernels)}, network ${percent(interval.network)}, scale ${percent(interval.scale)}` +
      `${interval.memory > 0 ? `, upwards a full device ${percent(interval.memory)}` : ''}.`,
  );
  // The interval's sentence stands above already.
  const notes = (forecast.notes as string[]).filter((note) => !note.startsWith('8 steps in 10'));
  return card(
    'How far to trust it',
    'What the step’s time rests on. A forecast is as good as its worst large part.',
    bar,
    legend,
    spread,
    notes.length ? h('ul', {class: 'notes', style: 'margin-top:12px'}, ...notes.map((note) => h('li', {}, note))) : null,
  );
}
