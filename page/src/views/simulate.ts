// One forecast step.
import type {StepDocument} from '../document';
import {h} from '../dom';
import {count, digits, gib, grouped, percent, seconds, secondsParts, secondsRange, signedPercent} from '../format';
import {gantt} from '../parts/gantt';
import {memoryChart, memoryTable} from '../parts/memory';
import {scalingCard} from '../parts/scaling';
import {splitCard} from '../parts/split';
import {trafficCard} from '../parts/traffic';
import {trustCard} from '../parts/trust';
import {card, headline, kpis, type Kpi} from '../shell';

export function title(forecast: any): string {
  const s = forecast.scenario;
  return `${s.model}, ${s.strategy} on ${grouped(s.gpus)} GPU${s.gpus === 1 ? '' : 's'}`;
}

export function subtitle(forecast: any): string {
  const s = forecast.scenario;
  const work = s.seq_len ? `${grouped(s.seq_len)} tokens a sequence` : `images of ${s.image_size} pixels a side`;
  const sharded = s.shard > 1 ? `, sharded over ${s.shard}${s.replicate > 1 ? `, ${s.replicate} replicas` : ''}` : '';
  return (
    `${count(s.parameters)} parameters, ${work}, micro-batch ${s.micro_batch}` +
    `${s.accumulation > 1 ? ` × ${s.accumulation} accumulated` : ''}, checkpointing ${s.checkpointing}. ` +
    `${s.precision}${sharded}. ${s.nodes} × ${s.gpus_per_node} ${s.gpu}${s.network ? `; ${s.network}` : ''}. ` +
    `${s.engine} engine, ${s.profile} profile, NCCL ${s.nccl_version}, ${s.step} step.`
  );
}

export function fitChip(forecast: any): HTMLElement {
  return forecast.fits
    ? h('span', {class: 'chip good'}, 'fits in memory')
    : h('span', {class: 'chip bad'}, 'does not fit in memory');
}

// `before`: a forecast to compare with (a pinned one of `stepcast serve`).
export function figures(d: StepDocument, before?: any): HTMLElement {
  const f = d.forecast;
  const rate = f.tokens_per_s ?? f.samples_per_s;
  const unit = f.tokens_per_s ? 'tokens/s' : 'images/s';
  const exposed = f.time_s.exposed / f.step_time_s;
  const roles: [string, any][] = Object.entries<any>(f.memory_bytes);
  const [role, memory] = roles.reduce((a, b) => (b[1].peak > a[1].peak ? b : a));
  const against = (now: number, then: number | undefined, lower: boolean, note: string): Pick<Kpi, 'note' | 'tone'> => {
    if (!before || !then) return {note};
    const change = now / then - 1;
    if (Math.abs(change) < 5e-4) return {note: 'as pinned'};
    return {note: `${signedPercent(change)} to pinned`, tone: change < 0 === lower ? 'better' : 'worse'};
  };
  const step = secondsParts(f.step_time_s);
  return kpis([
    {
      label: 'Step time',
      value: step.value,
      unit: step.unit,
      ...against(f.step_time_s, before?.step_time_s, true, `8 in 10: ${secondsRange(d.interval.low_s, d.interval.high_s)}`),
      title: 'From the end of one optimizer step to the end of the next',
    },
    {
      label: unit,
      value: grouped(rate),
      ...against(rate, before && (before.tokens_per_s ?? before.samples_per_s), false, `${grouped(f.tokens_per_s_per_gpu ?? f.samples_per_s_per_gpu, f.tokens_per_s ? 0 : 1)} a GPU`),
    },
    {
      label: 'MFU',
      value: (f.mfu * 100).toFixed(1),
      unit: '%',
      ...against(f.mfu, before?.mfu, false, `HFU ${percent(f.hfu)}, ${digits(f.tflops_per_gpu, 3)} TFLOP/s`),
      title: `of ${digits(f.peak_tflops)} TFLOP/s, the dense ${f.peak_dtype} peak`,
    },
    {
      label: 'Exposed communication',
      value: (exposed * 100).toFixed(1),
      unit: '%',
      ...against(f.time_s.exposed, before?.time_s.exposed, true, seconds(f.time_s.exposed)),
    },
    {
      label: roles.length > 1 ? `Memory a GPU (${role})` : 'Memory a GPU',
      value: (memory.peak / 2 ** 30).toFixed(1),
      unit: 'GiB',
      ...against(memory.peak, before && Math.max(...Object.values<any>(before.memory_bytes).map((m) => m.peak)), true, `of ${gib(f.memory_capacity_bytes)}, ${percent(memory.peak / f.memory_capacity_bytes)}`),
      meter: memory.peak / f.memory_capacity_bytes,
    },
  ]);
}

export function timelineCard(d: StepDocument): HTMLElement | null {
  if (!d.timeline) return null;
  const drawing = gantt(d.timeline);
  const memory = d.memory && d.memory.allocated.bytes.length ? memoryChart(d.memory) : null;
  if (memory) {
    drawing.onZoom(memory.setZoom);
    memory.onZoom(drawing.setZoom);
  }
  return card(
    'The step on its streams',
    '',
    drawing.tools,
    h('p', {class: 'hint'}, 'Drag to move, Ctrl and the wheel to zoom, or the arrow keys, + − and 0. Click an operation to keep what it says.'),
    drawing.element,
    memory ? h('div', {style: 'margin-top:14px'}, memory.element) : null,
  );
}

export function memoryCard(forecast: any): HTMLElement {
  const cards: HTMLElement[] = [];
  for (const [role, memory] of Object.entries<any>(forecast.memory_bytes)) {
    const reserved = memory.reserved
      ? ` The caching allocator reserves ${gib(memory.reserved.peak)} at most, at ${memory.reserved.peak_moment}.`
      : '';
    cards.push(
      h('p', {class: 'subtitle'}, `${Object.keys(forecast.memory_bytes).length > 1 ? `${role}, ${memory.ranks} GPUs: ` : ''}Peak ${gib(memory.peak)} at ${memory.peak_moment}; ${gib(memory.persistent)} between steps.${reserved}`),
    );
  }
  return card('Memory a GPU at the peak', '', ...cards, h('div', {style: 'margin-top:10px'}, memoryTable(forecast)));
}

export function perturbedCard(forecast: any): HTMLElement | null {
  const p = forecast.perturbed;
  if (!p) return null;
  const words = p.timed_out
    ? `The step never ends: the communicator's timeout of ${seconds(p.timed_out.timeout_s)} runs out at ${p.timed_out.op}.`
    : `The step takes ${seconds(p.step_time_s)} instead of ${seconds(forecast.step_time_s)}: ${seconds(p.lost_s)} are lost, goodput ${percent(p.goodput)}.`;
  return card(`Perturbed: ${p.asked.join(', ')}`, words, h('ul', {class: 'notes'}, ...p.classes.map((c: any) => h('li', {}, `${c.name} (${c.count} rank${c.count === 1 ? '' : 's'}): waited ${seconds(c.waited_s)} for others`))));
}

export function sections(d: StepDocument): HTMLElement[] {
  const f = d.forecast;
  return [
    f.fits ? null : h('div', {class: 'message', role: 'alert', style: 'margin-top:18px'}, `It does not fit in memory.${f.smallest_change ? ` What fits: ${f.smallest_change}.` : ' No single change or pair that was tried fits.'}`),
    perturbedCard(f),
    timelineCard(d),
    h('div', {class: 'columns cards'}, splitCard(f), memoryCard(f)),
    trafficCard(f, d.topology),
    d.scaling && d.scaling.points.length > 1 ? scalingCard(d.scaling) : null,
    trustCard(f, d.interval),
  ].filter((each): each is HTMLElement => each !== null);
}

export function simulateView(d: StepDocument): HTMLElement[] {
  return [headline(title(d.forecast), subtitle(d.forecast), fitChip(d.forecast)), figures(d), ...sections(d)];
}
