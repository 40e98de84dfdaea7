// Why a step takes its time (`explain`), and where two steps differ (`compare`).
import {axis, chart, tip, tooltip, type Option} from '../chart';
import {h} from '../dom';
import {bytes, grouped, milliseconds, percent, seconds, secondsParts, secondsTick, signedPercent, words} from '../format';
import {card, headline, kpis} from '../shell';
import {alternative, table} from '../table';
import {colour} from '../theme';

const pathColours: Record<string, string> = {all_gather: 'ag', reduce_scatter: 'rs'};

// The chain of operations that the step's end waited for, one after the other on one bar.
function pathCard(d: any): HTMLElement | null {
  const runs = (d.critical_path ?? []) as any[];
  if (!runs.length) return null;
  const first = runs[0].start_s;
  const name = (r: any): string => (r.ops > 1 ? `${r.first} … ${r.last}` : r.first);
  const shade = (r: any): string => (r.kind === 'collective' ? (pathColours[r.collective] ?? 'ar') : r.kind === 'compute' ? 'bwd' : r.kind === 'optimizer' ? 'opt' : r.kind === 'host' ? 'ho' : 'cp');
  const kinds = [...new Set(runs.map((r) => r.collective ?? r.kind))] as string[];
  const drawing = chart('The critical path of the step, operation after operation', 110, 'canvas');
  drawing.draw(() => ({
    animation: false,
    grid: {left: 12, right: 24, top: 8, bottom: 34},
    tooltip: {
      ...tooltip(),
      formatter: (item: any) => {
        const r = runs[item.value[2]];
        return tip(name(r), [
          ['takes', seconds(r.seconds)],
          ['of it interference', r.interference_s > 0 ? seconds(r.interference_s) : ''],
          ['operations', r.ops > 1 ? grouped(r.ops) : ''],
          ['on', r.stream],
          ['held by', r.bound_by ? `${r.bound}: ${r.bound_by}` : r.bound],
        ]);
      },
    },
    xAxis: {...axis(), type: 'value', min: 0, max: d.step_s, axisLabel: {...axis().axisLabel, formatter: secondsTick(d.step_s), showMaxLabel: false}},
    yAxis: {type: 'value', min: 0, max: 1, show: false},
    series: [
      {
        type: 'custom',
        encode: {x: [0, 1]},
        data: runs.map((r, at) => [r.start_s - first, r.start_s - first + r.seconds, at]),
        renderItem: (_: any, api: any) => {
          const from = api.coord([api.value(0), 1]);
          const to = api.coord([api.value(1), 0]);
          return {type: 'rect', shape: {x: from[0], y: from[1], width: Math.max(to[0] - from[0], 0.6), height: to[1] - from[1]}, style: {fill: colour(shade(runs[api.value(2)]))}};
        },
      },
    ],
  }));
  const legend = h('div', {class: 'legend'}, ...kinds.map((kind) => h('span', {}, h('span', {class: 'swatch', style: `background:var(--${shade(runs.find((r) => (r.collective ?? r.kind) === kind))})`}), words(kind))));
  const list = table<any>(
    [
      {label: 'start, ms', value: (r) => (r.start_s - first) * 1e3, text: (r) => grouped((r.start_s - first) * 1e3, 3)},
      {label: 'takes, ms', value: (r) => r.seconds * 1e3, text: (r) => grouped(r.seconds * 1e3, 3)},
      {label: 'operations', value: name},
      {label: 'count', value: (r) => r.ops},
      {label: 'on', value: (r) => r.stream},
      {label: 'held by', value: (r) => (r.bound_by ? `${r.bound}: ${r.bound_by}` : r.bound)},
    ],
    runs,
    {caption: 'The critical path', most: 40},
  );
  return card('The critical path', 'What the end of the step waited for, one after the other.', drawing.element, legend, alternative('As a table', list));
}

export function explainView(d: any): HTMLElement[] {
  const step = secondsParts(d.step_s);
  const exposed = Object.values((d.split_s?.exposed ?? {}) as Record<string, number>).reduce((a, b) => a + b, 0);
  const best = d.best === null || d.best === undefined ? null : d.changes[d.best];
  const bucket = d.bucket;
  return [
    headline(`Why ${d.model} takes ${seconds(d.step_s)} a step`, `${d.strategy} on ${grouped(d.gpus)} GPUs, ${d.nodes} × ${d.machine}.`, h('span', {class: `chip ${d.fits ? 'good' : 'bad'}`}, d.fits ? 'fits in memory' : 'does not fit in memory')),
    kpis([
      {label: 'Step time', value: step.value, unit: step.unit},
      {label: 'Exposed communication', value: ((exposed / d.step_s) * 100).toFixed(1), unit: '%', note: seconds(exposed)},
      {label: 'MFU', value: (d.mfu * 100).toFixed(1), unit: '%'},
      ...(best ? [{label: 'Best single change', value: (best.gain * 100).toFixed(1), unit: '%', note: best.change}] : []),
    ]),
    d.sentences?.length ? card('In words', '', h('ul', {class: 'notes', style: 'color:inherit'}, ...d.sentences.map((s: string) => h('li', {}, s)))) : null,
    pathCard(d),
    d.exposed?.length
      ? card(
          'Exposed communication by cause',
          '',
          table<any>(
            [
              {label: 'cause', value: (c) => words(c.cause)},
              {label: 'ms', value: (c) => c.seconds * 1e3, text: (c) => milliseconds(c.seconds)},
              {label: 'of the step', value: (c) => c.seconds / d.step_s, text: (c) => percent(c.seconds / d.step_s)},
              {label: 'calls', value: (c) => c.calls},
              {label: 'size', value: (c) => c.middle_bytes, text: (c) => bytes(c.middle_bytes)},
              {label: 'link', value: (c) => c.link},
              {label: 'in words', value: (c) => c.words},
            ],
            d.exposed,
            {caption: 'Exposed communication by cause'},
          ),
        )
      : null,
    h(
      'div',
      {class: 'columns cards'},
      card(
        'What more of each would bring',
        `The step forecast once more with ${percent((d.sensitivity_factor ?? 1.1) - 1, 0)} more of one resource.`,
        table<any>(
          [
            {label: 'resource', value: (s) => words(s.resource)},
            {label: 'step, ms', value: (s) => s.step_s * 1e3, text: (s) => milliseconds(s.step_s)},
            {label: 'gain', value: (s) => s.gain, text: (s) => percent(s.gain, 2)},
            {label: 'share', value: (s) => s.gain, bar: (s) => ({share: s.gain / Math.max(...d.sensitivities.map((x: any) => x.gain), 1e-9)})},
          ],
          d.sensitivities ?? [],
          {caption: 'Sensitivity of the step', sort: {column: 2, descending: true}},
        ),
      ),
      card(
        'The host',
        `It is busy ${seconds(d.host_busy_s)} of the step${bucket ? `; buckets of ${grouped(bucket.mib, 1)} MiB: ${bucket.binds === 'flat' ? 'the size hardly matters' : `bound by ${bucket.binds}`} (a quarter: ${seconds(bucket.quarter_step_s)}, four times: ${seconds(bucket.fourfold_step_s)})` : ''}.`,
        table<any>(
          [
            {label: 'work', value: (x) => words(x.work)},
            {label: 'count', value: (x) => x.count},
            {label: 'ms', value: (x) => x.seconds * 1e3, text: (x) => milliseconds(x.seconds)},
          ],
          d.host ?? [],
          {caption: 'What the host does', most: 12},
        ),
      ),
    ),
    d.changes?.length
      ? card(
          'Changes that were tried',
          'One at a time, the best first. Grey: does not fit in memory.',
          table<any>(
            [
              {label: 'change', value: (c) => c.change},
              {label: 'flags', value: (c) => c.flags},
              {label: 'step, ms', value: (c) => c.step_s * 1e3, text: (c) => milliseconds(c.step_s)},
              {label: 'gain', value: (c) => c.gain, text: (c) => signedPercent(c.gain)},
              {label: 'also changes', value: (c) => [c.changes_batch ? 'the batch' : '', c.changes_arithmetic ? 'the arithmetic' : ''].filter(Boolean).join(', ')},
            ],
            d.changes,
            {caption: 'Changes that were tried', most: 30, rowClass: (c) => (!c.fits ? 'quiet' : c === best ? 'strong' : '')},
          ),
        )
      : null,
  ].filter((each): each is HTMLElement => each !== null);
}

// From one step to the other, a bar a difference.
function waterfall(label: string, a: {name: string; step: number}, b: {name: string; step: number}, parts: {name: string; difference: number}[]): HTMLElement {
  const rows = [{name: a.name, from: 0, to: a.step, kind: 'end'}];
  let at = a.step;
  for (const part of parts) {
    rows.push({name: part.name, from: at, to: at + part.difference, kind: part.difference < 0 ? 'less' : 'more'});
    at += part.difference;
  }
  rows.push({name: b.name, from: 0, to: b.step, kind: 'end'});
  const most = Math.max(...rows.map((r) => Math.max(r.from, r.to)));
  const drawing = chart(label, 44 + 30 * rows.length);
  drawing.draw((): Option => ({
    grid: {left: 210, right: 30, top: 6, bottom: 30},
    tooltip: {...tooltip(), formatter: (item: any) => tip(rows[item.dataIndex].name, [[rows[item.dataIndex].kind === 'end' ? 'step' : 'difference', `${rows[item.dataIndex].kind === 'more' ? '+' : ''}${seconds(rows[item.dataIndex].to - rows[item.dataIndex].from)}`]])},
    xAxis: {...axis(), type: 'value', min: 0, max: most * 1.02, axisLabel: {...axis().axisLabel, formatter: secondsTick(most), showMaxLabel: false}},
    yAxis: {...axis(), type: 'category', inverse: true, data: rows.map((r) => r.name), axisTick: {show: false}, splitLine: {show: false}, axisLabel: {...axis().axisLabel, width: 190, overflow: 'truncate'}},
    series: [
      {type: 'bar', stack: 'w', silent: true, itemStyle: {color: 'transparent'}, data: rows.map((r) => Math.min(r.from, r.to))},
      {
        type: 'bar',
        stack: 'w',
        barWidth: 16,
        data: rows.map((r) => ({value: Math.abs(r.to - r.from), itemStyle: {color: colour(r.kind === 'end' ? 'bwd' : r.kind === 'less' ? 'good' : 'bad')}})),
      },
    ],
  }));
  return drawing.element;
}

export function compareView(d: any): HTMLElement[] {
  const {a, b} = d;
  const cells = (x: any): [string, string][] => [
    ['machine', `${x.nodes} × ${x.machine_name}`],
    ['GPUs', grouped(x.gpus)],
    ['strategy', x.strategy],
    ['precision', x.precision],
    ['step', seconds(x.step_s)],
    ['throughput', x.tokens_per_second ? `${grouped(x.tokens_per_second)} tokens/s` : `${grouped(x.samples_per_second)} samples/s`],
    ['MFU', percent(x.mfu)],
    ['memory', x.fits ? 'fits' : 'does not fit'],
    ['command', x.command],
  ];
  const left = cells(a);
  const right = cells(b);
  const ends = [
    {name: a.name, step: a.step_s},
    {name: b.name, step: b.step_s},
  ] as const;
  const causes = (d.by_cause as any[]).filter((c) => Math.abs(c.difference_s) > 0);
  const first = secondsParts(a.step_s);
  const second = secondsParts(b.step_s);
  return [
    headline(`${a.name} and ${b.name}`, `The second step takes ${seconds(Math.abs(d.difference_s))} ${d.difference_s < 0 ? 'less' : 'more'}.`),
    kpis([
      {label: a.name, value: first.value, unit: first.unit, note: `MFU ${percent(a.mfu)}`},
      {label: b.name, value: second.value, unit: second.unit, note: `MFU ${percent(b.mfu)}`},
      {label: 'Step', value: signedPercent(b.step_s / a.step_s - 1).replace(' %', ''), unit: '%', note: `throughput ${signedPercent(b.samples_per_second / a.samples_per_second - 1)}`, tone: d.difference_s < 0 ? 'better' : 'worse'},
    ]),
    card(
      'By cause',
      'Differences of the parts of the step; they add up.',
      waterfall('From the first step to the second, by cause', ends[0], ends[1], causes.map((c) => ({name: words(c.cause), difference: c.difference_s}))),
      alternative(
        'As a table',
        table<any>(
          [
            {label: 'cause', value: (c) => words(c.cause)},
            {label: `${a.name}, ms`, value: (c) => c.a_s * 1e3, text: (c) => milliseconds(c.a_s)},
            {label: `${b.name}, ms`, value: (c) => c.b_s * 1e3, text: (c) => milliseconds(c.b_s)},
            {label: 'difference, ms', value: (c) => c.difference_s * 1e3, text: (c) => milliseconds(c.difference_s)},
          ],
          d.by_cause,
          {caption: 'Differences by cause'},
        ),
      ),
    ),
    d.by_aspect?.length
      ? card(
          'By what was exchanged',
          'One aspect after the other goes from the first to the second; each difference is what that one brings where it stands.',
          waterfall('From the first step to the second, by aspect', ends[0], ends[1], d.by_aspect.map((x: any) => ({name: x.aspect, difference: x.difference_s}))),
          table<any>(
            [
              {label: 'aspect', value: (x) => x.aspect},
              {label: 'step then, ms', value: (x) => x.step_s * 1e3, text: (x) => milliseconds(x.step_s)},
              {label: 'difference, ms', value: (x) => x.difference_s * 1e3, text: (x) => milliseconds(x.difference_s)},
              {label: 'changes', value: (x) => (Array.isArray(x.changes) ? x.changes.join(', ') : x.changes)},
            ],
            d.by_aspect,
            {caption: 'Differences by aspect'},
          ),
        )
      : null,
    card(
      'Side by side',
      '',
      table<number>(
        [
          {label: '', value: (at) => left[at][0]},
          {label: a.name, value: (at) => left[at][1]},
          {label: b.name, value: (at) => right[at][1]},
        ],
        left.map((_, at) => at),
        {caption: 'Side by side'},
      ),
    ),
  ].filter((each): each is HTMLElement => each !== null);
}
