// Memory over the step, below the timeline and on its time axis: uPlot, for the points are many.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type {Curve, Memory} from '../document';
import {h} from '../dom';
import {afterPaint} from '../paint';
import {gib, seconds, words} from '../format';
import {alternative, table} from '../table';
import {colour, onTheme} from '../theme';
import {left, right, type Zoom} from './gantt';
import {font} from '../chart';

export interface MemoryChart {
  element: HTMLElement;
  setZoom: (zoom: Zoom) => void;
  onZoom: (listener: (zoom: Zoom) => void) => void;
}

// Both curves on the times of both; a level holds until the next.
function joined(m: Memory): uPlot.AlignedData {
  const closed = (curve: Curve): [number[], number[]] => {
    const last = curve.bytes[curve.bytes.length - 1];
    return [[...curve.t_us, m.period_us], [...curve.bytes, last]];
  };
  const curves = [m.allocated, m.reserved].filter((curve): curve is Curve => !!curve && curve.t_us.length > 0).map(closed);
  const times = [...new Set(curves.flatMap(([t]) => t))].sort((a, b) => a - b);
  const levels = curves.map(([t, bytes]) => {
    const out: (number | null)[] = [];
    let at = -1;
    for (const time of times) {
      while (at + 1 < t.length && t[at + 1] <= time) ++at;
      out.push(at < 0 ? null : bytes[at]);
    }
    return out;
  });
  return [times, ...levels] as uPlot.AlignedData;
}

export function memoryChart(m: Memory): MemoryChart {
  const host = h('div', {class: 'chart', role: 'img', 'aria-label': 'Memory allocated and reserved over the step', style: 'height:178px'});
  const readout = h('figcaption', {});
  const listeners: ((zoom: Zoom) => void)[] = [];
  const data = joined(m);
  let zoom: Zoom = {from: 0, to: m.period_us};
  let plot: uPlot | undefined;

  const say = (at: number | null | undefined): void => {
    const level = (series: number): number | null => (at === null || at === undefined ? null : (data[series]?.[at] as number));
    const now = at !== null && at !== undefined;
    readout.replaceChildren(
      h('strong', {}, 'Memory a GPU'),
      now
        ? ` at ${seconds((data[0][at] as number) * 1e-6)}: allocated ${gib(level(1))}${m.reserved ? `, reserved ${gib(level(2))}` : ''}`
        : `: allocated to ${gib(Math.max(...m.allocated.bytes))}${m.reserved ? `, reserved to ${gib(Math.max(...m.reserved.bytes))}` : ''} of ${gib(m.capacity_bytes)}; CUDA context and NCCL come on top`,
    );
  };

  const build = (): void => {
    plot?.destroy();
    if (host.clientWidth === 0) return;
    const most = Math.max(...m.allocated.bytes, ...(m.reserved?.bytes ?? [0]));
    const line = {stroke: colour('line'), width: 1};
    const stepped = uPlot.paths.stepped!({align: 1});
    plot = new uPlot(
      {
        width: host.clientWidth,
        height: 178,
        padding: [10, right, 8, 0],
        legend: {show: false},
        cursor: {drag: {x: true, y: false, setScale: false}, points: {show: false}, y: false},
        scales: {x: {time: false, min: zoom.from, max: zoom.to}, y: {range: [0, most * 1.08 || 1]}},
        axes: [
          {show: false, size: 0},
          {
            size: left,
            stroke: colour('muted'),
            font: `12px ${font}`,
            grid: line,
            ticks: {show: false},
            splits: (_, __, low, high) => [0, 1, 2, 3].map((part) => low + (part * (high - low)) / 3.24),
            values: (_, splits) => splits.map((value) => `${(value / 2 ** 30).toFixed(1)} GiB`),
          },
        ],
        series: [
          {},
          {label: 'allocated', stroke: colour('bwd'), fill: `${colour('bwd')}33`, width: 1.4, paths: stepped, points: {show: false}},
          ...(m.reserved ? [{label: 'reserved', stroke: colour('ag'), width: 1.4, dash: [5, 3], paths: stepped, points: {show: false}}] : []),
        ],
        hooks: {
          setCursor: [(u) => say(u.cursor.left !== undefined && u.cursor.left >= 0 ? u.cursor.idx : null)],
          setSelect: [
            (u) => {
              if (u.select.width < 4) return;
              const to = {from: u.posToVal(u.select.left, 'x'), to: u.posToVal(u.select.left + u.select.width, 'x')};
              u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
              listeners.forEach((listener) => listener(to));
            },
          ],
        },
      },
      data,
      host,
    );
  };
  afterPaint(() =>
    new ResizeObserver(() => {
      if (!plot) build();
      else if (host.clientWidth > 0 && host.clientWidth !== plot.width) plot.setSize({width: host.clientWidth, height: 178});
    }).observe(host),
  );
  onTheme(build);
  say(null);
  const legend = h(
    'div',
    {class: 'legend'},
    h('span', {}, h('span', {class: 'swatch', style: 'background:var(--bwd)'}), 'allocated'),
    m.reserved ? h('span', {}, h('span', {class: 'swatch', style: 'background:var(--ag)'}), 'reserved by the caching allocator') : null,
  );
  return {
    element: h('figure', {}, readout, host, legend),
    setZoom: (to) => {
      zoom = to;
      plot?.setScale('x', {min: to.from, max: to.to});
    },
    onZoom: (listener) => listeners.push(listener),
  };
}

interface Kind {
  role: string;
  kind: string;
  bytes: number;
}

// What the peak is made of, by role.
export function memoryTable(forecast: any): HTMLElement {
  const rows: Kind[] = [];
  for (const [role, memory] of Object.entries<any>(forecast.memory_bytes)) {
    for (const [kind, bytes] of Object.entries<number>(memory.at_peak)) rows.push({role, kind, bytes});
  }
  const several = Object.keys(forecast.memory_bytes).length > 1;
  const most = Math.max(...rows.map((row) => row.bytes), 1);
  return table<Kind>(
    [
      ...(several ? [{label: 'role', value: (row: Kind) => row.role}] : []),
      {label: 'kind', value: (row) => words(row.kind)},
      {label: 'GiB', value: (row) => row.bytes / 2 ** 30, text: (row) => (row.bytes / 2 ** 30).toFixed(2)},
      {label: 'size', value: (row) => row.bytes, bar: (row) => ({share: row.bytes / most, colour: 'var(--bwd)'})},
    ],
    rows,
    {caption: 'Memory a GPU at the peak, by kind'},
  );
}

export const memoryDetails = (forecast: any): HTMLElement =>
  alternative('What the peak is made of', memoryTable(forecast));
