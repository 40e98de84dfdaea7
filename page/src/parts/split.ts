// Where the step's time goes: one bar that is the step, and the rows beneath it.
import {h} from '../dom';
import {grouped, milliseconds, percent, words} from '../format';
import {card} from '../shell';
import {table} from '../table';

export interface Part {
  name: string;
  seconds: number;
  colour: string;
  exposed: boolean;
}

const exposedColours: Record<string, string> = {all_gather: 'ag', reduce_scatter: 'rs'};

export function parts(forecast: any): Part[] {
  const t = forecast.time_s;
  const list: Part[] = [
    {name: 'compute', seconds: t.compute, colour: 'bwd', exposed: false},
    {name: 'bucket and shard copies', seconds: t.copies, colour: 'cp', exposed: false},
    {name: 'interference', seconds: t.interference, colour: 'rec', exposed: false},
    {name: 'optimizer', seconds: t.optimizer, colour: 'opt', exposed: false},
    {name: 'host', seconds: t.host, colour: 'ho', exposed: false},
    {name: 'other waits', seconds: t.other, colour: 'faint', exposed: false},
  ];
  for (const [cause, seconds] of Object.entries(forecast.exposed_s as Record<string, number>)) {
    const kind = Object.keys(exposedColours).find((each) => cause.endsWith(each));
    list.push({
      name: `exposed: ${words(cause)}`,
      seconds,
      colour: kind ? exposedColours[kind] : 'ar',
      exposed: true,
    });
  }
  return list.filter((part) => part.seconds > 0);
}

export function splitCard(forecast: any): HTMLElement {
  const list = parts(forecast);
  const total = list.reduce((sum, part) => sum + part.seconds, 0) || 1;
  const longest = Math.max(...list.map((part) => part.seconds), 1e-12);
  const bar = h(
    'div',
    {class: 'stack', role: 'img', 'aria-label': 'The step as one bar, divided by what the compute stream does'},
    ...list.map((part) =>
      h('span', {
        style: `flex:${part.seconds / total} 1 0;background:var(--${part.colour})`,
        title: `${part.name}: ${milliseconds(part.seconds)} ms, ${percent(part.seconds / total)}`,
      }),
    ),
  );
  const exposed = list.filter((part) => part.exposed).reduce((sum, part) => sum + part.seconds, 0);
  return card(
    'Where the step goes',
    `Each moment of the compute stream belongs to one row. Communication that runs behind compute costs nothing here; ` +
      `${percent(exposed / total)} of the step waits for it.`,
    bar,
    table<Part>(
      [
        {label: 'cause', value: (p) => p.name},
        {label: 'ms', value: (p) => p.seconds * 1e3, text: (p) => milliseconds(p.seconds)},
        {label: 'of the step', value: (p) => p.seconds / total, text: (p) => `${grouped((p.seconds / total) * 100, 1)} %`},
        {label: 'share', value: (p) => p.seconds, bar: (p) => ({share: p.seconds / longest, colour: `var(--${p.colour})`})},
      ],
      list,
      {caption: 'Where the step goes'},
    ),
  );
}
