// A forecast beside what was measured here, one step or several.
import {axis, chart, tip, tooltip} from '../chart';
import {h} from '../dom';
import {bytes, grouped, milliseconds, percent, seconds, secondsParts, secondsTick, signedPercent, words} from '../format';
import {card, headline, kpis, notes} from '../shell';
import {alternative, table} from '../table';
import {colour} from '../theme';

interface Pair {
  name: string;
  forecast: number;
  measured: number;
  error: number;
}
const pair = (x: any, unit: string): Pair => ({name: x.name, forecast: x[`forecast_${unit}`] ?? x.forecast, measured: x[`measured_${unit}`] ?? x.measured, error: x.error});

function pairs(list: Pair[], caption: string, text: (x: number) => string): HTMLElement {
  return table<Pair>(
    [
      {label: '', value: (p) => words(p.name)},
      {label: 'forecast', value: (p) => p.forecast, text: (p) => text(p.forecast)},
      {label: 'measured', value: (p) => p.measured, text: (p) => text(p.measured)},
      {label: 'error', value: (p) => (p.measured > 0 ? p.error : null), text: (p) => (p.measured > 0 ? signedPercent(p.error) : '–')},
    ],
    list,
    {caption},
  );
}

function bars(list: Pair[], label: string): HTMLElement {
  const drawing = chart(label, 46 + 42 * list.length);
  drawing.draw(() => ({
    grid: {left: 170, right: 30, top: 28, bottom: 26},
    legend: {top: 0, right: 0, textStyle: {color: colour('muted')}, icon: 'roundRect', itemHeight: 9},
    tooltip: {...tooltip(), formatter: (item: any) => tip(words(list[item.dataIndex].name), [['forecast', seconds(list[item.dataIndex].forecast)], ['measured', seconds(list[item.dataIndex].measured)], ['error', signedPercent(list[item.dataIndex].error)]])},
    xAxis: {...axis(), type: 'value', axisLabel: {...axis().axisLabel, formatter: secondsTick(Math.max(...list.map((p) => Math.max(p.forecast, p.measured))))}},
    yAxis: {...axis(), type: 'category', inverse: true, data: list.map((p) => words(p.name)), axisTick: {show: false}, splitLine: {show: false}},
    series: [
      {name: 'forecast', type: 'bar', barWidth: 11, color: colour('bwd'), data: list.map((p) => p.forecast)},
      {name: 'measured', type: 'bar', barWidth: 11, color: colour('ag'), data: list.map((p) => p.measured)},
    ],
  }));
  return drawing.element;
}

export function validateView(d: any): HTMLElement[] {
  const step = pair({name: 'step', ...d.step}, 's');
  const parts: Pair[] = (d.parts ?? []).map((x: any) => pair(x, 's'));
  const drawn = parts.filter((p) => p.forecast > step.forecast * 0.002 || p.measured > step.forecast * 0.002);
  const f = secondsParts(step.forecast);
  const m = secondsParts(step.measured);
  return [
    headline(`${d.strategy} ${d.model}, ${d.ranks} ranks`, `Forecast beside ${d.steps} measured steps on ${d.executor}. ${d.verdict ?? ''}`),
    kpis([
      {label: 'Forecast', value: f.value, unit: f.unit},
      {label: 'Measured', value: m.value, unit: m.unit, note: `spread ${percent(d.spread)}`},
      {label: 'Error', value: signedPercent(step.error).replace(' %', ''), unit: '%', note: step.error < 0 ? 'the forecast is faster' : 'the forecast is slower'},
    ]),
    drawn.length ? card('Where the time went', '', bars(drawn, 'Parts of the step, forecast and measured'), alternative('As a table', pairs(parts, 'Parts of the step', milliseconds))) : null,
    d.blame?.length
      ? card(
          'What is to blame',
          'The step forecast once more with these costs as they were measured.',
          table<any>(
            [
              {label: 'costs', value: (b) => b.what},
              {label: 'calls', value: (b) => b.calls},
              {label: 'step, ms', value: (b) => b.step_s * 1e3, text: (b) => milliseconds(b.step_s)},
              {label: 'measured over forecast', value: (b) => b.measured_over_forecast, text: (b) => `× ${grouped(b.measured_over_forecast, 2)}`},
              {label: 'error then', value: (b) => b.step_s / step.measured - 1, text: (b) => signedPercent(b.step_s / step.measured - 1)},
            ],
            d.blame,
            {caption: 'Costs to blame', most: 12},
          ),
        )
      : null,
    d.collectives?.length
      ? card(
          'Collectives',
          '',
          table<any>(
            [
              {label: 'collective', value: (c) => words(c.op)},
              {label: 'axis', value: (c) => c.axis},
              {label: 'size', value: (c) => c.bytes, text: (c) => bytes(c.bytes)},
              {label: 'calls', value: (c) => c.calls},
              {label: 'forecast, ms', value: (c) => c.forecast_s * 1e3, text: (c) => milliseconds(c.forecast_s)},
              {label: 'measured, ms', value: (c) => c.measured_s * 1e3, text: (c) => milliseconds(c.measured_s)},
              {label: 'error', value: (c) => c.error, text: (c) => signedPercent(c.error)},
              {label: 'provenance', value: (c) => c.provenance},
            ],
            d.collectives,
            {caption: 'Collectives, forecast and measured', most: 30},
          ),
        )
      : null,
    d.memory?.length ? card('Memory', '', pairs(d.memory.map((x: any) => pair(x, 'bytes')), 'Memory, forecast and measured', bytes)) : null,
    notes(d.notes ?? []),
  ].filter((each): each is HTMLElement => each !== null);
}

export function validateSweepView(d: any): HTMLElement[] {
  const rows = (d.points as any[]).map((point, at) => ({value: String(d.values?.[at] ?? point.value), step: pair({name: '', ...point.validation.step}, 's')}));
  const drawing = chart('Steps forecast and measured, by value', 320);
  drawing.draw(() => ({
    grid: {left: 80, right: 24, top: 36, bottom: 50},
    legend: {top: 0, textStyle: {color: colour('muted')}, icon: 'circle', itemHeight: 9, itemWidth: 12, itemGap: 18},
    tooltip: {...tooltip(), trigger: 'axis', formatter: (items: any) => tip(`${words(d.key)} ${rows[items[0].dataIndex].value}`, [['forecast', seconds(rows[items[0].dataIndex].step.forecast)], ['measured', seconds(rows[items[0].dataIndex].step.measured)], ['error', signedPercent(rows[items[0].dataIndex].step.error)]])},
    xAxis: {...axis(), type: 'category', data: rows.map((r) => r.value), name: words(d.key), nameLocation: 'middle', nameGap: 30},
    yAxis: {...axis(), type: 'value', min: 0, axisLabel: {...axis().axisLabel, formatter: secondsTick(Math.max(...rows.map((r) => Math.max(r.step.forecast, r.step.measured))))}},
    series: [
      {name: 'forecast', type: 'line', symbolSize: 8, color: colour('bwd'), data: rows.map((r) => r.step.forecast)},
      {name: 'measured', type: 'line', symbolSize: 8, color: colour('ag'), data: rows.map((r) => r.step.measured)},
    ],
  }));
  const errors = rows.map((r) => Math.abs(r.step.error)).sort((a, b) => a - b);
  return [
    headline(`${words(d.key)} varied`, 'Forecast and measured here, a point a value.'),
    kpis([
      {label: 'Median error', value: (errors[Math.floor((errors.length - 1) / 2)] * 100).toFixed(1), unit: '%'},
      ...(d.pairs_told_apart > 0 ? [{label: 'Pairs in the right order', value: `${d.pairs_in_order}`, unit: `of ${d.pairs_told_apart}`, note: 'that the measurement tells apart'}] : []),
    ]),
    card('Steps by value', '', drawing.element, h('div', {style: 'margin-top:12px'}, pairs(rows.map((r) => ({...r.step, name: r.value})), 'Steps by value', seconds))),
  ];
}
