// The accuracy ledger: forecasts beside published measurements.
import {axis, chart, tip, tooltip, type Option} from '../chart';
import {choice} from '../controls';
import {h} from '../dom';
import {digits, grouped, percent, plain, seconds, signedPercent} from '../format';
import {card, headline, kpis} from '../shell';
import {table} from '../table';
import {colour, series} from '../theme';

interface Row {
  id: string;
  source: string;
  split: string;
  gpus: number;
  nodes: number;
  measured_s: number;
  forecast_s: number;
  error: number;
}
const median = (list: number[]): number => {
  const sorted = [...list].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  return sorted.length ? (sorted[Math.floor((sorted.length - 1) / 2)] + sorted[Math.floor(middle)]) / 2 : NaN;
};

export function publishedView(d: any): HTMLElement[] {
  const sources = d.sources as any[];
  const rows: Row[] = sources.flatMap((source) => (source.rows as any[]).map((row) => ({...row, source: source.name})));
  const bars = sources.flatMap((source) => (source.bars ?? []).map((bar: any) => ({...bar, source: source.name})));
  const usable = (row: Row): boolean => row.measured_s > 0 && row.forecast_s > 0;
  const checked = rows.filter((row) => row.split === 'check' && Number.isFinite(row.error));
  let split = 'check';
  const tools = h('div', {class: 'tools'});
  const drawing = chart('Forecast against measured step time, a point a published row', 440);
  const draw = (): Option => {
    const shown = rows.filter((row) => usable(row) && (split === 'all' || row.split === split));
    const all = shown.flatMap((row) => [row.measured_s, row.forecast_s]);
    const low = 10 ** Math.floor(Math.log10(Math.min(...all)));
    const high = 10 ** Math.ceil(Math.log10(Math.max(...all)));
    const colours = series();
    const logarithmic = {...axis(), type: 'log', min: low, max: high, axisLabel: {...axis().axisLabel, formatter: (v: number) => `${plain(v)} s`}};
    return {
      grid: {left: 76, right: 24, top: 56, bottom: 52},
      legend: {top: 0, textStyle: {color: colour('muted')}, icon: 'circle', itemHeight: 9, itemWidth: 12, itemGap: 18},
      tooltip: {
        ...tooltip(),
        formatter: (item: any) => {
          const row: Row | undefined = item.data.row;
          return row ? tip(row.id, [['measured', seconds(row.measured_s)], ['forecast', seconds(row.forecast_s)], ['error', signedPercent(row.error)], ['GPUs', grouped(row.gpus)], ['rows to', row.split]]) : tip('as measured', []);
        },
      },
      xAxis: {...logarithmic, name: 'measured', nameLocation: 'middle', nameGap: 30},
      yAxis: {...logarithmic, name: 'forecast', nameLocation: 'middle', nameGap: 58},
      series: [
        {name: 'equal', type: 'line', symbol: 'none', silent: true, color: colour('faint'), lineStyle: {type: 'dashed', width: 1.2}, data: [[low, low], [high, high]]},
        ...sources.map((source, at) => ({
          name: source.name,
          type: 'scatter',
          symbol: at < 8 ? 'circle' : 'triangle',
          symbolSize: 7,
          color: colours[at % colours.length],
          itemStyle: {opacity: 0.75},
          data: shown.filter((row) => row.source === source.name).map((row) => ({value: [row.measured_s, row.forecast_s], row})),
        })),
      ],
    };
  };
  const refresh = (): void => {
    tools.replaceChildren(choice('rows', [{value: 'check', text: 'checked, not fitted on'}, {value: 'fit', text: 'fitted on'}, {value: 'all', text: 'all'}], split, (v) => ((split = v), refresh())));
    drawing.draw(draw);
  };
  refresh();
  const all = card(
    'Every row',
    '',
    table<Row>(
      [
        {label: 'row', value: (r) => r.id},
        {label: 'source', value: (r) => r.source},
        {label: 'GPUs', value: (r) => r.gpus},
        {label: 'nodes', value: (r) => r.nodes},
        {label: 'measured', value: (r) => r.measured_s, text: (r) => seconds(r.measured_s)},
        {label: 'forecast', value: (r) => r.forecast_s, text: (r) => seconds(r.forecast_s)},
        {label: 'error', value: (r) => r.error, text: (r) => signedPercent(r.error)},
        {label: 'used to', value: (r) => r.split},
      ],
      rows,
      {caption: 'Published rows', most: 30},
    ),
  );
  all.classList.add('long');
  return [
    headline('Forecasts beside published measurements', 'Rows that were fitted on are kept apart from rows that were not.'),
    kpis([
      {label: 'Rows', value: grouped(rows.length), note: `from ${sources.length} sources`},
      {label: 'Median error, checked rows', value: (median(checked.map((row) => Math.abs(row.error))) * 100).toFixed(1), unit: '%', note: `${grouped(checked.length)} rows, not fitted on`},
      {label: 'Worst', value: (Math.max(...checked.map((row) => Math.abs(row.error))) * 100).toFixed(0), unit: '%', note: 'of the checked rows'},
      {label: 'Bars met', value: String(bars.filter((bar) => bar.met).length), unit: `of ${bars.length}`, note: 'that the project set itself'},
    ]),
    card('Forecast against measured', '', tools, drawing.element),
    card(
      'Sources',
      '',
      table<any>(
        [
          {label: 'source', value: (s) => s.title},
          {label: 'checked rows', value: (s) => s.rows.filter((r: any) => r.split === 'check').length},
          {label: 'median error', value: (s) => median(s.rows.filter((r: any) => r.split === 'check').map((r: any) => Math.abs(r.error))), text: (s) => percent(median(s.rows.filter((r: any) => r.split === 'check').map((r: any) => Math.abs(r.error))))},
          {label: 'how rows are read', value: (s) => s.reading},
        ],
        sources,
        {caption: 'Sources of published rows'},
      ),
    ),
    card(
      'Bars',
      'What the project wanted to reach, and where it stands.',
      table<any>(
        [
          {label: 'source', value: (b) => b.source},
          {label: 'figure', value: (b) => b.figure},
          {label: 'wanted', value: (b) => (b.at_most !== undefined ? `at most ${b.at_most}` : `at least ${b.at_least}`)},
          {label: 'is', value: (b) => b.value, text: (b) => digits(b.value, 3)},
          {label: 'met', value: (b) => (b.met ? 'yes' : 'no')},
        ],
        bars,
        {caption: 'Bars', rowClass: (b) => (b.met ? '' : 'strong')},
      ),
    ),
    all,
  ];
}
