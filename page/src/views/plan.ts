// What to buy or rent: days against cost, the ranked choices, what binds each.
import {axis, chart, tip, tooltip, type Option} from '../chart';
import {choice} from '../controls';
import {h} from '../dom';
import {bytes, count, digits, grouped, percent, seconds, words} from '../format';
import {card, headline, kpis, notes} from '../shell';
import {table, type Column} from '../table';
import {colour, series} from '../theme';

const usd = (x: unknown): string => (typeof x === 'number' ? `$${grouped(x)}` : 'no price');
const days = (x: unknown): string => (typeof x === 'number' ? `${digits(x, 3)} d` : '–');

export function planView(d: any): HTMLElement[] {
  const points = d.points as any[];
  const best = points[d.best] ?? points[0];
  const priced = points.some((p) => typeof p.cost_usd === 'number');
  const name = (p: any): string => `${p.nodes} × ${p.machine_name}, ${words(p.strategy)}`;
  const facts = (p: any): HTMLElement =>
    tip(name(p), [
      ['time', `${days(p.days)} (${days(p.days_low)} to ${days(p.days_high)})`],
      ['cost', usd(p.cost_usd)],
      ['energy', `${grouped(p.kwh)} kWh`],
      ['GPUs', grouped(p.gpus)],
      ['micro-batch', `${p.micro_batch} × ${p.accumulation}, checkpointing ${p.checkpointing}`],
      ['step', seconds(p.step_s)],
      ['MFU', percent(p.mfu)],
      ['memory left', percent(p.headroom)],
      ['binds', `${p.binding?.constraint} ${percent(p.binding?.share, 0)}`],
    ]);

  const amount: Record<string, {label: string; key: string; text: (x: number) => string}> = {
    cost: {label: 'cost, US$', key: 'cost_usd', text: (x) => `$${x >= 1e6 ? `${digits(x / 1e6, 3)} M` : x >= 1e3 ? `${digits(x / 1e3, 3)} k` : digits(x, 3)}`},
    energy: {label: 'energy, kWh', key: 'kwh', text: (x) => grouped(x)},
    gpus: {label: 'GPUs', key: 'gpus', text: (x) => grouped(x)},
  };
  let against = priced ? 'cost' : 'energy';
  const drawing = chart('Days against cost; the table below has the numbers', 400);
  const tools = h('div', {class: 'tools'});
  const frontier = new Set((d.front as number[] | undefined) ?? []);
  const draw = (): Option => {
    const y = amount[against];
    const gpus = [...new Set(points.map((p) => p.gpu as string))].sort();
    const short = (gpu: string): string => gpu.replace(/^NVIDIA (Tesla )?/, '');
    const colours = series();
    const shown = points.filter((p) => typeof p[y.key] === 'number');
    const line = against === 'cost' ? shown.filter((p) => frontier.has(points.indexOf(p))).sort((a, b) => a.days - b.days) : [];
    const range = (key: string): number => Math.max(...shown.map((p) => p[key])) / Math.min(...shown.map((p) => p[key]));
    return {
      grid: {left: 86, right: 24, top: 44, bottom: 52},
      legend: {type: 'scroll', top: 0, textStyle: {color: colour('muted')}, icon: 'circle', itemHeight: 9, itemWidth: 12, itemGap: 18},
      tooltip: {...tooltip(), formatter: (item: any) => (item.data.point ? facts(item.data.point) : tip('', []))},
      xAxis: {...axis(), type: range('days') > 20 ? 'log' : 'value', scale: true, name: 'days', nameLocation: 'middle', nameGap: 30},
      yAxis: {...axis(), type: range(y.key) > 20 ? 'log' : 'value', scale: true, name: y.label, nameLocation: 'middle', nameGap: 66, axisLabel: {...axis().axisLabel, formatter: y.text}},
      series: [
        ...gpus.map((gpu, at) => ({
          name: short(gpu),
          type: 'scatter',
          symbol: at < 8 ? 'circle' : 'triangle',
          color: colours[at % colours.length],
          data: shown
            .filter((p) => p.gpu === gpu)
            .map((p) => ({
              value: [p.days, p[y.key]],
              point: p,
              symbolSize: p === best ? 16 : 9,
              itemStyle: {opacity: p.meets === false ? 0.35 : 0.9, borderColor: p === best ? colour('ink') : 'transparent', borderWidth: 2},
            })),
        })),
        ...(line.length > 1
          ? [{name: 'front', type: 'line', step: 'end', symbol: 'none', z: 1, color: colour('accent'), lineStyle: {width: 1.6, color: colour('accent')}, data: line.map((p) => ({value: [p.days, p[y.key]], point: p}))}]
          : []),
      ],
    };
  };
  const refresh = (): void => {
    tools.replaceChildren(
      choice('against', Object.entries(amount).filter(([key]) => key !== 'cost' || priced).map(([value, a]) => ({value, text: a.label})), against, (v) => ((against = v), refresh())),
    );
    drawing.draw(draw);
  };
  refresh();

  const columns: Column<any>[] = [
    {label: 'rank', value: (p) => p.rank},
    {label: 'machine', value: (p) => p.machine},
    {label: 'nodes', value: (p) => p.nodes},
    {label: 'GPUs', value: (p) => p.gpus},
    {label: 'strategy', value: (p) => p.strategy},
    {label: 'micro-batch', value: (p) => p.micro_batch},
    {label: 'accumulation', value: (p) => p.accumulation},
    {label: 'checkpointing', value: (p) => p.checkpointing},
    {label: 'days', value: (p) => p.days, text: (p) => digits(p.days, 3)},
    {label: 'low', value: (p) => p.days_low, text: (p) => digits(p.days_low, 3)},
    {label: 'high', value: (p) => p.days_high, text: (p) => digits(p.days_high, 3)},
    {label: 'cost', value: (p) => p.cost_usd, text: (p) => usd(p.cost_usd)},
    {label: 'kWh', value: (p) => p.kwh, text: (p) => grouped(p.kwh)},
    {label: 'tokens/s', value: (p) => p.tokens_per_second, text: (p) => grouped(p.tokens_per_second)},
    {label: 'MFU', value: (p) => p.mfu, text: (p) => percent(p.mfu)},
    {label: 'memory left', value: (p) => p.headroom, text: (p) => percent(p.headroom)},
    {label: 'binds', value: (p) => p.binding?.constraint},
    {label: 'next node brings', value: (p) => p.next_node?.share, text: (p) => (typeof p.next_node?.share === 'number' ? `${percent(p.next_node.share, 0)} of a node` : '–')},
    {label: 'goodput', value: (p) => p.goodput, text: (p) => percent(p.goodput)},
    {label: 'meets', value: (p) => (p.meets === undefined ? null : p.meets ? 'yes' : 'no')},
  ];
  const ranked = card(
    'Ranked',
    'Bold: on the front of days against cost. Grey: does not meet what was asked.',
    table<any>(columns, points, {caption: 'Choices, ranked', most: 40, rowClass: (p) => (p.meets === false ? 'quiet' : p.on_front ? 'strong' : '')}),
  );
  ranked.classList.add('long');

  const shares = Object.entries((best?.binding?.shares ?? {}) as Record<string, number>).sort((a, b) => b[1] - a[1]);
  const winner = best
    ? card(
        'The first choice',
        '',
        h(
          'div',
          {class: 'columns'},
          table<[string, number]>(
            [
              {label: 'constraint', value: ([key]) => words(key)},
              {label: 'of the step', value: ([, share]) => share, text: ([, share]) => percent(share)},
              {label: 'share', value: ([, share]) => share, bar: ([, share]) => ({share})},
            ],
            shares,
            {caption: 'What binds the first choice'},
          ),
          h(
            'div',
            {},
            best.checkpoint
              ? h('p', {}, `Checkpoints of ${bytes(d.checkpoint_bytes)} every ${seconds(best.checkpoint.interval_s)}, ${best.checkpoint.writer}${best.checkpoint.background ? ' and in the background' : ''}: the step stands for ${seconds(best.checkpoint.stall_s)}, storage has one after ${seconds(best.checkpoint.on_storage_s)}. A failure every ${grouped(best.mtbf_s / 3600, 1)} h; goodput ${percent(best.goodput)}.`)
              : null,
            best.next_node
              ? h('p', {style: 'margin-top:8px'}, `One more node brings ${percent(best.next_node.share, 0)} of what a node should: ${digits(best.next_node.days_saved, 2)} days less${typeof best.next_node.cost_added_usd === 'number' ? ` for ${usd(best.next_node.cost_added_usd)} more` : ''}.`)
              : null,
            best.command ? h('p', {class: 'subtitle', style: 'margin-top:8px'}, 'The same step: ', h('code', {}, best.command)) : null,
          ),
        ),
      )
    : null;
  const machines = d.machines?.length
    ? card(
        'Machines',
        'Prices and power as the catalog has them, with where they were read.',
        table<any>(
          [
            {label: 'machine', value: (m) => m.machine},
            {label: 'GPU', value: (m) => m.gpu},
            {label: 'GPUs', value: (m) => m.gpus_per_node},
            {label: 'US$ a GPU and hour', value: (m) => m.usd_per_gpu_hour, text: (m) => (typeof m.usd_per_gpu_hour === 'number' ? m.usd_per_gpu_hour.toFixed(2) : 'no price')},
            {label: 'price from', value: (m) => [m.price_source, m.price_date].filter(Boolean).join(', ')},
            {label: 'node, W', value: (m) => m.node_watts, text: (m) => grouped(m.node_watts)},
            {label: 'power from', value: (m) => m.power_source},
            {label: 'left out because', value: (m) => m.why_not},
          ],
          d.machines,
          {caption: 'Machines that were considered', most: 12},
        ),
      )
    : null;
  const asked = d.asked ?? {};
  const trained = asked.amount ?? asked.tokens;
  const amountOf = trained ? `, ${count(trained)} ${d.unit ?? 'tokens'}` : '';
  const limits = [
    asked.deadline_days ? `within ${asked.deadline_days} days` : '',
    asked.budget_usd ? `for at most ${usd(asked.budget_usd)}` : '',
    asked.max_nodes ? `at most ${asked.max_nodes} nodes` : '',
    asked.headroom ? `${percent(asked.headroom, 0)} of memory left free` : '',
  ].filter(Boolean);
  return [
    headline(`Plan for ${d.model}`, `${count(d.parameters)} parameters${amountOf}${d.seq_len ? `, sequences of ${grouped(d.seq_len)}` : ''}; ${limits.join(', ')}.`, best ? h('span', {class: `chip ${best.meets === false ? 'bad' : 'good'}`}, best.meets === false ? 'nothing meets it' : 'meets what was asked') : h('span', {class: 'chip bad'}, 'nothing fits')),
    best
      ? kpis([
          {label: 'First choice', value: `${best.nodes} ×`, unit: best.machine, note: `${words(best.strategy)}, micro-batch ${best.micro_batch}, ${best.gpus} GPUs`},
          {label: 'Time', value: digits(best.days, 3), unit: 'days', note: `${digits(best.days_low, 3)} to ${digits(best.days_high, 3)}, 8 in 10`},
          {label: 'Cost', value: typeof best.cost_usd === 'number' ? amount.cost.text(best.cost_usd) : '–', note: typeof best.cost_usd === 'number' ? `${amount.cost.text(best.cost_low_usd)} to ${amount.cost.text(best.cost_high_usd)}` : 'the catalog has no price'},
          {label: 'MFU', value: (best.mfu * 100).toFixed(1), unit: '%', note: `${count(best.tokens_per_second)} ${d.unit ?? 'tokens'}/s`},
          {label: 'Energy', value: digits(best.kwh / 1000, 3), unit: 'MWh', note: `binds: ${best.binding?.constraint ?? '–'}`},
        ])
      : null,
    points.length ? card('Days against money', 'A point a choice; the large one comes first. Faint: does not meet what was asked.', tools, drawing.element) : null,
    winner,
    points.length ? ranked : null,
    machines,
    notes(d.assumptions ?? [], 'Assumptions'),
  ].filter((each): each is HTMLElement => each !== null);
}
