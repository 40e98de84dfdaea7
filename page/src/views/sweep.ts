// Many points: two knobs as a heatmap or a curve, the front of two outputs, and every point.
import {axis, chart, tip, tooltip, type Option} from '../chart';
import {choice} from '../controls';
import {h} from '../dom';
import {count, grouped, plain, tick, withUnit, words} from '../format';
import {card, headline, kpis} from '../shell';
import {table, type Column} from '../table';
import {colour, series} from '../theme';

interface Output {
  key: string;
  label: string;
  unit: string;
  better: 'lower' | 'higher' | null;
}
interface Varied {
  key: string;
  type: string;
  values: (string | number | boolean | null)[];
}
type Point = Record<string, any> & {inputs: Record<string, any>; state: string; fits: boolean | null; error: string | null};

const text = (value: unknown): string => (value === null || value === undefined ? '–' : typeof value === 'number' ? plain(value, 5) : String(value));

function pick(points: Point[], output: Output): Point | null {
  let best: Point | null = null;
  for (const p of points) {
    if (p[output.key] === null || p[output.key] === undefined) continue;
    if (!best) best = p;
    else if (output.better === 'lower' ? p[output.key] < best[output.key] : p[output.key] > best[output.key]) best = p;
  }
  return best;
}

// Of a point that was screened by one engine and confirmed by the other only the latter.
function confirmed(points: Point[]): Point[] {
  const name = (p: Point): string => JSON.stringify(p.inputs);
  const fluid = new Set(points.filter((p) => p.engine === 'fluid').map(name));
  return points.filter((p) => p.engine === 'fluid' || !fluid.has(name(p)));
}

// Points that nothing beats in both outputs, by x.
export function front(points: Point[], x: Output, y: Output): Point[] {
  const sign = (o: Output): number => (o.better === 'lower' ? 1 : -1);
  const sorted = points
    .filter((p) => typeof p[x.key] === 'number' && typeof p[y.key] === 'number')
    .sort((a, b) => sign(x) * (a[x.key] - b[x.key]) || sign(y) * (a[y.key] - b[y.key]));
  const out: Point[] = [];
  let best = Infinity;
  for (const p of sorted) {
    const value = sign(y) * p[y.key];
    if (value < best) {
      out.push(p);
      best = value;
    }
  }
  return out;
}

export function sweepView(d: any): HTMLElement[] {
  const every = d.points as Point[];
  const points = confirmed(every);
  const outputs = d.outputs as Output[];
  // Values as they stand in the points: samples of a range are not listed.
  const varied = (d.varied as Varied[]).map((v) => {
    const seen = [...new Set(points.map((p) => p.inputs[v.key]).filter((x) => x !== null && x !== undefined))];
    const listed = v.values?.length ? v.values.filter((x) => seen.includes(x)) : [];
    const values = listed.length === seen.length ? listed : seen.sort((a, b) => (typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b))));
    return {...v, values};
  });
  const usable = points.filter((p) => p.fits === true);
  const output = (key: string): Output => outputs.find((o) => o.key === key) ?? outputs[0];
  const named = (key: string, value: unknown): string => `${words(key)} ${text(value)}`;
  const describe = (p: Point): string =>
    Object.entries(p.inputs)
      .filter(([, value]) => value !== null)
      .map(([key, value]) => (typeof value === 'string' ? value : named(key, value)))
      .join(', ');
  const facts = (p: Point): HTMLElement =>
    tip(describe(p), [
      ...outputs.slice(0, 8).map((o): [string, string] => [o.label, withUnit(p[o.key], o.unit)]),
      ['memory', p.fits === null ? '' : p.fits ? 'fits' : 'does not fit'],
      ['binding', p.binding ?? ''],
      ['', p.error ?? ''],
    ]);

  // ---- the map
  const numeric = varied.filter((v) => v.values.length > 1);
  const bySize = [...numeric].sort((a, b) => b.values.length - a.values.length);
  const state = {
    x: bySize[0]?.key ?? varied[0]?.key ?? '',
    y: bySize[1]?.key ?? '',
    metric: d.best?.by ?? 'tokens_per_s_per_gpu',
    as: 'map',
    fixed: {} as Record<string, string>,
    memory: 'fits',
  };
  if (state.metric === 'tokens_per_s' && outputs.some((o) => o.key === 'tokens_per_s_per_gpu')) state.metric = 'tokens_per_s_per_gpu';
  const drawing = chart('The chosen output over two knobs; the table below has every point', 380);
  const lead = h('p', {class: 'subtitle', style: 'margin:0 0 10px'});
  const tools = h('div', {class: 'tools'});
  const filters = h('div', {class: 'tools', style: 'margin-bottom:10px'});
  const valuesOf = (key: string): any[] => varied.find((v) => v.key === key)?.values ?? [];
  const chosen = (): Point[] =>
    (state.memory === 'fits' ? usable : points).filter((p) => Object.entries(state.fixed).every(([key, value]) => value === '' || text(p.inputs[key]) === value));

  const heat = (): Option => {
    const o = output(state.metric);
    const xs = valuesOf(state.x);
    const ys = state.y ? valuesOf(state.y) : [''];
    const cells: {value: [number, number, number]; point: Point}[] = [];
    const missing: {value: [number, number, number]; point: Point | null}[] = [];
    const list = chosen();
    xs.forEach((x, i) =>
      ys.forEach((y, j) => {
        const here = (p: Point): boolean => p.inputs[state.x] === x && (!state.y || p.inputs[state.y] === y);
        const best = pick(list.filter(here), o);
        if (best) cells.push({value: [i, j, best[o.key]], point: best});
        else missing.push({value: [i, j, 0], point: points.find(here) ?? null});
      }),
    );
    const levels = cells.map((cell) => cell.value[2]);
    const low = Math.min(...levels);
    const high = Math.max(...levels);
    const best = pick(cells.map((cell) => cell.point), o);
    const reverse = o.better === 'lower';
    const crowded = xs.length > 14;
    return {
      grid: {left: 96, right: 96, top: 12, bottom: 52},
      tooltip: {...tooltip(), formatter: (item: any) => (item.data.point ? facts(item.data.point) : tip('no point', []))},
      xAxis: {...axis(), type: 'category', data: xs.map(text), name: words(state.x), nameLocation: 'middle', nameGap: 30, splitLine: {show: false}},
      yAxis: {...axis(), type: 'category', data: ys.map(text), name: state.y ? words(state.y) : '', splitLine: {show: false}},
      visualMap: {
        min: low,
        max: high > low ? high : low + 1,
        dimension: 2,
        seriesIndex: 0,
        calculable: true,
        right: 0,
        top: 'middle',
        itemWidth: 12,
        itemHeight: 170,
        precision: 6,
        formatter: (value: number) => tick(value, o.unit),
        textStyle: {color: colour('muted'), fontSize: 11},
        inRange: {color: reverse ? [colour('heat-high'), colour('heat-low')] : [colour('heat-low'), colour('heat-high')]},
      },
      series: [
        {
          type: 'heatmap',
          data: cells.map((cell) => ({
            ...cell,
            itemStyle: cell.point === best ? {borderColor: colour('ag'), borderWidth: 3} : {borderColor: colour('surface'), borderWidth: 1},
            label: {
              show: !crowded,
              formatter: withUnit(cell.value[2], o.unit),
              color: ((cell.value[2] - low) / (high - low || 1) > 0.5) === !reverse ? colour('surface') : colour('ink'),
              fontSize: 11.5,
            },
          })),
          emphasis: {itemStyle: {borderColor: colour('ink'), borderWidth: 2}},
        },
        {
          type: 'heatmap',
          data: missing.map((cell) => ({
            ...cell,
            itemStyle: {color: colour('sunken'), borderColor: colour('surface'), borderWidth: 1},
            visualMap: false,
            label: {show: !crowded, color: colour('faint'), fontSize: 11, formatter: cell.point ? (cell.point.fits === false ? 'does not fit' : words(cell.point.state)) : ''},
          })),
        },
      ],
    };
  };

  const curves = (): Option => {
    const o = output(state.metric);
    const xs = valuesOf(state.x);
    const groups = state.y ? valuesOf(state.y) : [null];
    const list = chosen();
    const logarithmic = xs.every((x) => typeof x === 'number' && x > 0) && xs[xs.length - 1] / xs[0] > 20;
    const isNumber = xs.every((x) => typeof x === 'number');
    const spread = state.metric === 'step_time_s';
    const colours = series();
    const lines = groups.flatMap((group, at) => {
      const best = xs
        .map((x) => pick(list.filter((p) => p.inputs[state.x] === x && (group === null || p.inputs[state.y] === group)), o))
        .filter((p): p is Point => p !== null);
      const place = (p: Point): any => (isNumber ? p.inputs[state.x] : text(p.inputs[state.x]));
      const main = {
        name: group === null ? o.label : text(group),
        type: 'line',
        symbol: 'circle',
        symbolSize: 6,
        data: best.map((p) => ({value: [place(p), p[o.key]], point: p})),
        color: colours[at % colours.length],
        lineStyle: {width: 2},
      };
      const bounded = spread ? best.filter((p) => typeof p.step_time_low_s === 'number') : [];
      if (!bounded.length) return [main];
      const band = {name: main.name, type: 'line', symbol: 'none', lineStyle: {opacity: 0}, stack: `band${at}`, silent: true, tooltip: {show: false}};
      return [
        {...band, data: bounded.map((p) => [place(p), p.step_time_low_s])},
        {...band, areaStyle: {color: main.color, opacity: 0.13}, data: bounded.map((p) => [place(p), p.step_time_high_s - p.step_time_low_s])},
        main,
      ];
    });
    return {
      grid: {left: 84, right: 24, top: 40, bottom: 52},
      legend: {top: 0, textStyle: {color: colour('muted')}, data: groups.map((g) => ({name: g === null ? o.label : text(g)})), icon: 'circle', itemHeight: 9, itemWidth: 12, itemGap: 18},
      tooltip: {...tooltip(), trigger: 'item', formatter: (item: any) => (item.data.point ? facts(item.data.point) : tip('', []))},
      xAxis: {...axis(), type: isNumber ? (logarithmic ? 'log' : 'value') : 'category', logBase: 2, min: isNumber ? xs[0] : undefined, max: isNumber ? xs[xs.length - 1] : undefined, data: isNumber ? undefined : xs.map(text), name: words(state.x), nameLocation: 'middle', nameGap: 30},
      yAxis: {...axis(), type: 'value', scale: !spread, min: spread ? 0 : undefined, axisLabel: {...axis().axisLabel, formatter: (v: number) => tick(v, o.unit)}},
      series: lines,
    };
  };

  const refresh = (): void => {
    const o = output(state.metric);
    const rest = varied.filter((v) => v.key !== state.x && v.key !== state.y && v.values.length > 1);
    for (const key of Object.keys(state.fixed)) if (!rest.some((v) => v.key === key)) delete state.fixed[key];
    const knobs = numeric.map((v) => ({value: v.key, text: words(v.key)}));
    tools.replaceChildren(
      choice('of', outputs.map((each) => ({value: each.key, text: each.label})), state.metric, (v) => ((state.metric = v), refresh())),
      choice('across', knobs, state.x, (v) => {
        if (state.y === v) state.y = state.x;
        state.x = v;
        refresh();
      }),
      choice('by', [{value: '', text: 'nothing'}, ...knobs.filter((k) => k.value !== state.x)], state.y, (v) => ((state.y = v), refresh())),
      choice('as', [{value: 'map', text: 'heatmap'}, {value: 'curves', text: 'curves'}], state.as, (v) => ((state.as = v), refresh())),
    );
    filters.replaceChildren(
      ...rest.map((v) =>
        choice(words(v.key), [{value: '', text: `best of ${v.values.length}`}, ...v.values.map((x) => ({value: text(x), text: text(x)}))], state.fixed[v.key] ?? '', (value) => {
          state.fixed[v.key] = value;
          refresh();
        }),
      ),
      choice('memory', [{value: 'fits', text: 'that fits'}, {value: 'all', text: 'all points'}], state.memory, (v) => ((state.memory = v), refresh())),
    );
    lead.textContent =
      `Each ${state.as === 'map' ? 'cell' : 'point'} is the best ${o.label} of ${state.memory === 'fits' ? 'the points that fit' : 'all points'}` +
      `${rest.some((v) => !state.fixed[v.key]) ? ` over ${rest.filter((v) => !state.fixed[v.key]).map((v) => words(v.key)).join(', ')}` : ''}.` +
      (state.as === 'map' ? ' The best of all is framed.' : '');
    drawing.resize(state.as === 'map' ? Math.min(640, Math.max(240, 90 + 38 * Math.max(1, valuesOf(state.y).length))) : 360);
    drawing.draw(state.as === 'map' ? heat : curves);
  };
  refresh();
  if (state.y === '') {
    state.as = 'curves';
    refresh();
  }
  const map = card('The knobs', '', tools, filters, lead, drawing.element);

  // ---- the front
  const axes = {x: d.pareto?.x ?? 'world_size', y: d.pareto?.y ?? 'tokens_per_s'};
  const scatter = chart('Points by two outputs, and the front that nothing beats', 380, usable.length > 1500 ? 'canvas' : 'svg');
  const frontTools = h('div', {class: 'tools'});
  const judged = outputs.map((o) => ({...o, better: o.better ?? (o.key === 'world_size' ? 'lower' : null)}) as Output).filter((o) => o.better);
  const judgedBy = (key: string): Output => judged.find((o) => o.key === key) ?? judged[0];
  const groupKey = numeric.find((v) => v.values.length <= 8 && v.type === 'word')?.key ?? numeric.find((v) => v.values.length <= 8)?.key;
  const drawFront = (): Option => {
    const x = judgedBy(axes.x);
    const y = judgedBy(axes.y);
    const line = front(usable, x, y);
    const groups = groupKey ? valuesOf(groupKey) : [null];
    const colours = series();
    const size = (o: Output): boolean => {
      const list = usable.map((p) => p[o.key]).filter((v) => typeof v === 'number' && v > 0);
      return list.length > 0 && Math.max(...list) / Math.min(...list) > 30;
    };
    const axisOf = (o: Output): Option => ({
      ...axis(),
      type: size(o) ? 'log' : 'value',
      scale: true,
      name: `${o.label}${o.better === 'lower' ? ' (less is better)' : ' (more is better)'}`,
      axisLabel: {...axis().axisLabel, formatter: (v: number) => tick(v, o.unit)},
    });
    return {
      grid: {left: 92, right: 24, top: 44, bottom: 52},
      legend: {top: 0, textStyle: {color: colour('muted')}, icon: 'circle', itemHeight: 9, itemWidth: 12, itemGap: 18},
      tooltip: {...tooltip(), formatter: (item: any) => (item.data.point ? facts(item.data.point) : tip('the front', []))},
      xAxis: {...axisOf(x), nameLocation: 'middle', nameGap: 30},
      yAxis: {...axisOf(y), nameLocation: 'middle', nameGap: 76},
      series: [
        ...groups.map((group, at) => ({
          name: group === null ? 'points' : text(group),
          type: 'scatter',
          symbolSize: 7,
          itemStyle: {color: colours[at % colours.length], opacity: 0.6},
          data: usable.filter((p) => group === null || p.inputs[groupKey!] === group).map((p) => ({value: [p[x.key], p[y.key]], point: p})),
        })),
        {
          name: 'front',
          type: 'line',
          step: 'end',
          z: 5,
          symbol: 'circle',
          symbolSize: 9,
          color: colour('accent'),
          lineStyle: {width: 2, color: colour('accent')},
          data: line.map((p) => ({value: [p[x.key], p[y.key]], point: p})),
        },
      ],
    };
  };
  const refreshFront = (): void => {
    const list = judged.map((o) => ({value: o.key, text: o.label}));
    frontTools.replaceChildren(
      choice('across', list, axes.x, (v) => ((axes.x = v), refreshFront())),
      choice('up', list, axes.y, (v) => ((axes.y = v), refreshFront())),
    );
    scatter.draw(drawFront);
  };
  refreshFront();
  const pareto = usable.length ? card('What trades for what', 'Every point that fits; on the line those that no other beats in both.', frontTools, scatter.element) : null;

  // ---- the points
  const best = (d.best?.points as number[] | undefined)?.map((at) => every[at])[0] ?? pick(usable, output('tokens_per_s'));
  const columns: Column<Point>[] = [
    ...varied.map((v): Column<Point> => ({label: words(v.key), value: (p) => p.inputs[v.key], text: (p) => text(p.inputs[v.key])})),
    ...outputs.map((o): Column<Point> => ({label: o.label, value: (p) => p[o.key], text: (p) => withUnit(p[o.key], o.unit)})),
    {label: 'engine', value: (p) => p.engine},
    {label: 'binding', value: (p) => p.binding},
    {label: 'state', value: (p) => p.error ?? (p.fits ? 'fits' : words(p.state))},
  ];
  const by = outputs.findIndex((o) => o.key === (d.best?.by ?? 'tokens_per_s'));
  const list = table<Point>(columns, every, {
    caption: 'Every point of the sweep',
    most: 50,
    sort: by >= 0 ? {column: varied.length + by, descending: outputs[by].better !== 'lower'} : undefined,
    rowClass: (p) => (p === best ? 'strong' : p.fits ? '' : 'quiet'),
  });
  const all = card('Every point', 'Points that do not fit or were refused are grey.', list);
  all.classList.add('long');

  const counts = d.counts ?? {};
  const base = Object.entries(d.scenario ?? {})
    .map(([key, value]) => (['model', 'cluster', 'strategy'].includes(key) ? text(value) : `${words(key)} ${text(value)}`))
    .join(', ');
  const summary = kpis([
    {label: 'Points', value: grouped(counts.points ?? every.length), note: varied.map((v) => words(v.key)).join(', ')},
    {label: 'Fit in memory', value: grouped(counts.fit ?? usable.length), note: `${grouped(counts.does_not_fit ?? 0)} do not, ${grouped(counts.error ?? 0)} refused`},
    ...(best
      ? [
          {label: `Best ${output(d.best?.by ?? 'tokens_per_s').label}`, value: count(best[d.best?.by ?? 'tokens_per_s']), note: describe(best)},
          {label: 'Its step', value: withUnit(best.step_time_s, 's').split(' ')[0], unit: withUnit(best.step_time_s, 's').split(' ')[1], note: `MFU ${withUnit(best.mfu, 'fraction')}, ${withUnit(best.memory_peak_bytes, 'B')}`},
        ]
      : []),
  ]);
  return [headline(`Sweep of ${d.scenario?.model ?? 'a scenario'}`, base), summary, map, pareto, all].filter((each): each is HTMLElement => each !== null);
}
