// The same step on other numbers of nodes: throughput beside the straight line, and the step's time
// with the interval that holds it 8 times in 10.
import {axis, chart, tip, tooltip, type Option} from '../chart';
import type {Scaling, ScalingPoint} from '../document';
import {h} from '../dom';
import {grouped, milliseconds, percent, seconds, secondsRange, secondsTick} from '../format';
import {card} from '../shell';
import {alternative, table} from '../table';
import {colour} from '../theme';

export function scalingCard(s: Scaling): HTMLElement {
  const points = s.points;
  const first = points[0];
  const ideal = (p: ScalingPoint): number => (first.throughput / first.nodes) * p.nodes;
  const efficiency = (p: ScalingPoint): number => p.throughput / ideal(p);
  const nodes = points.map((p) => String(p.nodes));

  const common = (): Option => ({
    grid: {left: 74, right: 22, top: 22, bottom: 46},
    xAxis: {...axis(), type: 'category', data: nodes, name: 'nodes', nameLocation: 'middle', nameGap: 28, boundaryGap: false},
  });
  const facts = (p: ScalingPoint): HTMLElement =>
    tip(`${p.nodes} node${p.nodes === 1 ? '' : 's'}, ${grouped(p.gpus)} GPUs`, [
      ['step', seconds(p.step_time_s)],
      ['8 of 10', secondsRange(p.low_s, p.high_s)],
      [s.unit, grouped(p.throughput)],
      ['efficiency', percent(efficiency(p))],
      ['exposed', percent(p.exposed_s / p.step_time_s)],
      ['memory', p.fits ? 'fits' : 'does not fit'],
    ]);
  const marked = (p: ScalingPoint): Option => ({
    symbolSize: p.nodes === s.here ? 11 : 6,
    itemStyle: p.fits ? undefined : {color: colour('surface'), borderColor: colour('bad'), borderWidth: 2},
  });

  const throughput = chart(`${s.unit} by number of nodes`, 250);
  throughput.draw(() => ({
    ...common(),
    tooltip: {...tooltip(), trigger: 'axis', formatter: (items: any) => facts(points[items[0].dataIndex])},
    yAxis: {...axis(), type: 'log', axisLabel: {...axis().axisLabel, formatter: (v: number) => (v >= 1e6 ? `${v / 1e6} M` : v >= 1e3 ? `${v / 1e3} k` : `${v}`)}},
    series: [
      {name: 'linear', type: 'line', data: points.map(ideal), symbol: 'none', lineStyle: {type: 'dashed', color: colour('faint'), width: 1.3}},
      {
        name: 'forecast',
        type: 'line',
        data: points.map((p) => ({value: p.throughput, ...marked(p)})),
        symbol: 'circle',
        lineStyle: {color: colour('accent'), width: 2},
        itemStyle: {color: colour('accent')},
      },
    ],
  }));
  const time = chart('Step time by number of nodes, with the interval that holds 8 steps in 10', 250);
  time.draw(() => ({
    ...common(),
    tooltip: {...tooltip(), trigger: 'axis', formatter: (items: any) => facts(points[items[0].dataIndex])},
    yAxis: {...axis(), type: 'value', min: 0, axisLabel: {...axis().axisLabel, formatter: secondsTick(Math.max(...points.map((p) => p.high_s)))}},
    series: [
      {type: 'line', stack: 'band', symbol: 'none', lineStyle: {opacity: 0}, data: points.map((p) => p.low_s), silent: true},
      {
        type: 'line',
        stack: 'band',
        symbol: 'none',
        lineStyle: {opacity: 0},
        areaStyle: {color: colour('accent'), opacity: 0.16},
        data: points.map((p) => p.high_s - p.low_s),
        silent: true,
      },
      {
        type: 'line',
        data: points.map((p) => ({value: p.step_time_s, ...marked(p)})),
        symbol: 'circle',
        lineStyle: {color: colour('accent'), width: 2},
        itemStyle: {color: colour('accent')},
      },
    ],
  }));
  const rows = table<ScalingPoint>(
    [
      {label: 'nodes', value: (p) => p.nodes},
      {label: 'GPUs', value: (p) => p.gpus},
      {label: 'step, ms', value: (p) => p.step_time_s * 1e3, text: (p) => milliseconds(p.step_time_s)},
      {label: 'low, ms', value: (p) => p.low_s, text: (p) => milliseconds(p.low_s)},
      {label: 'high, ms', value: (p) => p.high_s, text: (p) => milliseconds(p.high_s)},
      {label: s.unit, value: (p) => p.throughput, text: (p) => grouped(p.throughput)},
      {label: 'efficiency', value: efficiency, text: (p) => percent(efficiency(p))},
      {label: 'exposed', value: (p) => p.exposed_s / p.step_time_s, text: (p) => percent(p.exposed_s / p.step_time_s)},
      {label: 'memory', value: (p) => (p.fits ? 'fits' : 'does not fit')},
    ],
    points,
    {caption: 'The step on other numbers of nodes', rowClass: (p) => (p.nodes === s.here ? 'strong' : p.fits ? '' : 'quiet')},
  );
  const dropped = s.left_out.length ? h('ul', {class: 'notes'}, ...s.left_out.map((line) => h('li', {}, line))) : null;
  return card(
    'On more and on fewer nodes',
    `The same scenario with the same batch a GPU, ${s.engine} engine. The large point is this one; a hollow one does not fit in memory.`,
    h(
      'div',
      {class: 'columns'},
      h('figure', {}, h('figcaption', {}, h('strong', {}, s.unit), '; dashed: as the smallest size, times nodes'), throughput.element),
      h('figure', {}, h('figcaption', {}, h('strong', {}, 'step time'), '; shaded: 8 steps in 10'), time.element),
    ),
    alternative('As a table', rows),
    dropped,
  );
}
