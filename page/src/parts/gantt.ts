// The streams of one step on a time axis. Wheel and drag zoom, and so do the keys: arrows move,
// + and - zoom, 0 shows the whole step. What is under the pointer says where its time comes from; a
// click keeps it below the drawing.
import {axis, chart, tip, tooltip, type Option} from '../chart';
import type {Timeline} from '../document';
import {h} from '../dom';
import {bytes, grouped, seconds} from '../format';
import {alternative, table} from '../table';
import {colour} from '../theme';

export const left = 142; // pixels, shared with the memory curve below
export const right = 22;

export interface Zoom {
  from: number; // microseconds
  to: number;
}

export interface Gantt {
  element: HTMLElement;
  tools: HTMLElement;
  setZoom: (zoom: Zoom) => void;
  onZoom: (listener: (zoom: Zoom) => void) => void;
}

function facts(t: Timeline, at: number): [string, string][] {
  const s = t.spans;
  const text = (number: number): string => (number < 0 ? '' : (t.texts[number] ?? ''));
  const list: [string, string][] = [
    ['starts at', seconds(s.start_us[at] * 1e-6)],
    ['takes', seconds(s.length_us[at] * 1e-6)],
  ];
  if (s.count[at] > 1) list.push(['is', `${grouped(s.count[at])} operations, ${seconds(s.busy_us[at] * 1e-6)} of work`]);
  list.push(['alone', s.solo_us[at] > 0 ? seconds(s.solo_us[at] * 1e-6) : '']);
  list.push(['size', s.bytes[at] > 0 ? bytes(s.bytes[at]) : '']);
  list.push(['cost', text(s.detail[at])]);
  list.push(['provenance', text(s.provenance[at])]);
  list.push(['held by', text(s.bound[at]) === 'start' ? '' : text(s.bound[at])]);
  list.push(['waited for', text(s.cause[at])]);
  list.push(['rule', text(s.rule[at])]);
  return list.filter(([, value]) => value !== '');
}

export function gantt(t: Timeline): Gantt {
  const period = t.period_us;
  const rowHeight = t.rows.length > 14 ? 20 : 30;
  const drawing = chart('Timeline of the step, a row a stream. The table below lists its longest operations.', t.rows.length * rowHeight + 86, 'canvas');
  drawing.element.tabIndex = 0;
  const listeners: ((zoom: Zoom) => void)[] = [];
  const selected = h('div', {class: 'selected', hidden: true, 'aria-live': 'polite'});
  let zoom: Zoom = {from: 0, to: period};

  const unit = period >= 2e6 ? {scale: 1e-6, name: 's'} : period >= 2e3 ? {scale: 1e-3, name: 'ms'} : {scale: 1, name: 'µs'};
  const data = t.spans.row.map((row, at) => [row, t.spans.start_us[at], t.spans.start_us[at] + t.spans.length_us[at], at]);
  const shortName = (at: number): string => {
    const name = t.texts[t.spans.name[at]] ?? '';
    return name.split('.').slice(2).join('.').replace(/#.*$/, '').replace(/^layers\./, '') || name.split('.')[1] || name;
  };

  const option = (): Option => {
    const colours = t.legend.map((shade) => colour(shade.key));
    const dark = document.documentElement.dataset.theme === 'dark';
    return {
      animation: false,
      grid: {left, right, top: 8, bottom: 62, outerBoundsMode: 'none'},
      tooltip: {
        ...tooltip(),
        formatter: (item: any) => {
          const at = item.value[3];
          return tip(t.texts[t.spans.name[at]] ?? '', facts(t, at));
        },
      },
      xAxis: {
        ...axis(),
        type: 'value',
        min: 0,
        max: period,
        axisLabel: {...axis().axisLabel, formatter: (us: number) => `${Number((us * unit.scale).toPrecision(6))}`, showMaxLabel: false},
        name: unit.name,
        nameLocation: 'end',
        nameGap: 4,
      },
      yAxis: {
        ...axis(),
        type: 'category',
        data: t.rows,
        inverse: true,
        axisTick: {show: false},
        axisLine: {show: false},
        splitArea: {show: true, areaStyle: {color: [colour('sunken'), 'transparent']}},
        splitLine: {show: false},
        axisLabel: {color: colour('ink'), fontSize: 12.5, width: left - 14, overflow: 'truncate'},
      },
      dataZoom: [
        {type: 'inside', filterMode: 'weakFilter', startValue: zoom.from, endValue: zoom.to, zoomOnMouseWheel: 'ctrl', moveOnMouseMove: true, moveOnMouseWheel: false, preventDefaultMouseMove: false},
        {
          type: 'slider',
          filterMode: 'weakFilter',
          startValue: zoom.from,
          endValue: zoom.to,
          height: 16,
          bottom: 10,
          showDetail: false,
          brushSelect: true,
          borderColor: colour('line'),
          fillerColor: colour('accent-soft'),
          backgroundColor: 'transparent',
          handleStyle: {color: colour('surface'), borderColor: colour('line-strong')},
          moveHandleStyle: {color: colour('line-strong')},
          moveHandleSize: 4,
        },
      ],
      series: [
        {
          type: 'custom',
          progressive: 0,
          encode: {x: [1, 2], y: 0},
          dimensions: ['row', 'start', 'end', 'span'],
          data,
          renderItem: (params: any, api: any) => {
            const at = api.value(3) as number;
            const row = api.value(0) as number;
            const from = api.coord([api.value(1), row]);
            const to = api.coord([api.value(2), row]);
            const height = api.size([0, 1])[1] * 0.66;
            const area = params.coordSys;
            const x0 = Math.max(from[0], area.x);
            const x1 = Math.min(to[0], area.x + area.width);
            if (x1 < area.x || x0 > area.x + area.width) return null;
            const width = Math.max(x1 - x0, 0.6);
            const shade = t.spans.shade[at];
            const label = width > 46 ? shortName(at) : '';
            const light = ['rec', 'cp', 'ag', 'fwd'].includes(t.legend[shade].key) && !dark;
            return {
              type: 'rect',
              shape: {x: x0, y: from[1] - height / 2, width, height, r: width > 5 ? 2 : 0},
              style: {fill: colours[shade], stroke: width > 4 ? colour('surface') : undefined, lineWidth: width > 4 ? 0.7 : 0},
              emphasis: {style: {stroke: colour('ink'), lineWidth: 1.2}},
              textContent: label
                ? {style: {text: label, fill: light ? '#16202e' : '#fff', fontSize: 11, width: width - 8, overflow: 'truncate'}}
                : undefined,
              textConfig: {position: 'inside'},
            };
          },
        },
      ],
    };
  };

  const tell = (): void => listeners.forEach((listener) => listener(zoom));
  const setZoom = (to: Zoom): void => {
    const span = Math.min(period, Math.max(period / 20000, to.to - to.from));
    const from = Math.min(Math.max(0, to.from), period - span);
    zoom = {from, to: from + span};
    drawing.echarts()?.dispatchAction({type: 'dataZoom', startValue: zoom.from, endValue: zoom.to});
    tell();
  };
  const scaled = (by: number): void => {
    const middle = (zoom.from + zoom.to) / 2;
    const half = ((zoom.to - zoom.from) / 2) * by;
    setZoom({from: middle - half, to: middle + half});
  };
  const moved = (by: number): void => {
    const span = zoom.to - zoom.from;
    setZoom({from: zoom.from + span * by, to: zoom.to + span * by});
  };

  const show = (at: number): void => {
    selected.hidden = false;
    const list = h('dl', {class: 'facts'});
    for (const [name, value] of facts(t, at)) list.append(h('div', {}, h('dt', {}, name), h('dd', {}, value)));
    selected.replaceChildren(h('h3', {}, `${t.rows[t.spans.row[at]]}: ${t.texts[t.spans.name[at]] ?? ''}`), list);
  };

  drawing.element.addEventListener('keydown', (event) => {
    const keys: Record<string, () => void> = {
      ArrowLeft: () => moved(-0.2),
      ArrowRight: () => moved(0.2),
      '+': () => scaled(0.6),
      '=': () => scaled(0.6),
      '-': () => scaled(1 / 0.6),
      '0': () => setZoom({from: 0, to: period}),
      Home: () => setZoom({from: 0, to: period}),
    };
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });

  let wired = false;
  const wire = (): void => {
    const echarts = drawing.echarts();
    if (!echarts || wired) return;
    wired = true;
    echarts.on('click', (item: any) => show(item.value[3]));
    echarts.on('datazoom', () => {
      const state = (echarts.getOption() as any).dataZoom[0];
      if (Math.abs(state.startValue - zoom.from) + Math.abs(state.endValue - zoom.to) < period * 1e-9) return;
      zoom = {from: state.startValue, to: state.endValue};
      tell();
    });
  };
  const start = (): void => {
    drawing.draw(option);
    wire();
    if (!wired) requestAnimationFrame(start);
  };
  requestAnimationFrame(start);

  const button = (text: string, label: string, act: () => void): HTMLElement =>
    h('button', {type: 'button', class: 'button', 'aria-label': label, title: label, onclick: act}, text);
  const tools = h(
    'div',
    {class: 'tools', role: 'group', 'aria-label': 'Zoom of the timeline'},
    button('−', 'Zoom out (-)', () => scaled(1 / 0.5)),
    button('+', 'Zoom in (+)', () => scaled(0.5)),
    button('Whole step', 'Show the whole step (0)', () => setZoom({from: 0, to: period})),
  );

  const used = new Set(t.spans.shade);
  const legend = h(
    'div',
    {class: 'legend'},
    ...t.legend.map((shade, at) =>
      used.has(at) ? h('span', {}, h('span', {class: 'swatch', style: `background:var(--${shade.key})`}), shade.label) : null,
    ),
  );
  const longest = t.spans.length_us
    .map((length, at) => ({length, at}))
    .sort((a, b) => b.length - a.length)
    .slice(0, 200)
    .map(({at}) => at);
  const list = table<number>(
    [
      {label: 'operation', value: (at) => t.texts[t.spans.name[at]]},
      {label: 'stream', value: (at) => t.rows[t.spans.row[at]]},
      {label: 'start, ms', value: (at) => t.spans.start_us[at] / 1e3, text: (at) => grouped(t.spans.start_us[at] / 1e3, 3)},
      {label: 'takes, ms', value: (at) => t.spans.length_us[at] / 1e3, text: (at) => grouped(t.spans.length_us[at] / 1e3, 3)},
      {label: 'alone, ms', value: (at) => t.spans.solo_us[at] / 1e3, text: (at) => grouped(t.spans.solo_us[at] / 1e3, 3)},
      {label: 'cost', value: (at) => t.texts[t.spans.detail[at]]},
      {label: 'provenance', value: (at) => t.texts[t.spans.provenance[at]]},
    ],
    longest,
    {caption: 'The longest operations of the step', most: 20},
  );
  return {
    element: h('div', {}, drawing.element, legend, selected, alternative('The longest operations as a table', list)),
    tools,
    setZoom,
    onZoom: (listener) => listeners.push(listener),
  };
}
