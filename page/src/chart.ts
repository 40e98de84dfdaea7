// ECharts with only what is used, in the page's colours; follows theme, size and print.
import {BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart} from 'echarts/charts';
import {
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TooltipComponent,
  VisualMapComponent,
} from 'echarts/components';
import {init, use, type ECharts} from 'echarts/core';
import {CanvasRenderer, SVGRenderer} from 'echarts/renderers';
import {h} from './dom';
import {afterPaint} from './paint';
import {colour, onTheme} from './theme';

use([
  BarChart,
  CustomChart,
  HeatmapChart,
  LineChart,
  ScatterChart,
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  MarkLineComponent,
  TooltipComponent,
  VisualMapComponent,
  CanvasRenderer,
  SVGRenderer,
]);

export type Option = Record<string, any>;

export interface Chart {
  element: HTMLElement;
  echarts: () => ECharts | undefined;
  draw: (option: () => Option) => void; // called again when the theme changes
  resize: (height: number) => void;
}

export const font = 'system-ui, -apple-system, "Segoe UI", "Inter", "Noto Sans", "DejaVu Sans", sans-serif';

export const axis = (): Option => ({
  axisLine: {lineStyle: {color: colour('line-strong')}},
  axisTick: {lineStyle: {color: colour('line-strong')}},
  axisLabel: {color: colour('muted'), fontSize: 12},
  nameTextStyle: {color: colour('muted'), fontSize: 12},
  splitLine: {lineStyle: {color: colour('line')}},
});

export const tooltip = (): Option => ({
  backgroundColor: colour('surface'),
  borderColor: colour('line-strong'),
  borderWidth: 1,
  padding: [8, 12],
  textStyle: {color: colour('ink'), fontSize: 13, fontFamily: font},
  extraCssText: 'box-shadow: 0 4px 18px rgb(0 0 0 / 14%); border-radius: 8px;',
  confine: true,
  transitionDuration: 0,
});

// A tip of a title and facts, as an element: names are text.
export function tip(title: string, facts: [string, string | null | undefined][]): HTMLElement {
  const list = h('dl');
  for (const [name, value] of facts) {
    if (value) list.append(h('dt', {}, name), h('dd', {}, value));
  }
  return h('div', {class: 'tip'}, h('strong', {}, title), list);
}

// `label` is what a screen reader says; figures have a table beside them for the numbers.
export function chart(label: string, height: number, renderer: 'svg' | 'canvas' = 'svg'): Chart {
  const element = h('div', {class: 'chart', role: 'img', 'aria-label': label, style: `height:${height}px`});
  let instance: ECharts | undefined;
  let current: (() => Option) | undefined;

  const draw = (): void => {
    if (!current || !element.isConnected || element.clientWidth === 0) return;
    instance ??= init(element, null, {renderer, devicePixelRatio: Math.max(2, window.devicePixelRatio)});
    const reduced = window.matchMedia('(prefers-reduced-motion: reduce)').matches;
    instance.setOption(
      {
        textStyle: {fontFamily: font},
        animation: !reduced,
        animationDuration: 200,
        animationDurationUpdate: 160,
        ...current(),
      },
      {notMerge: true},
    );
  };
  afterPaint(() =>
    new ResizeObserver(() => {
      if (!instance) draw();
      else if (element.clientWidth > 0) instance.resize({animation: {duration: 0}});
    }).observe(element),
  );
  window.addEventListener('beforeprint', () => instance?.resize());
  window.addEventListener('afterprint', () => instance?.resize());
  onTheme(draw);
  return {
    element,
    echarts: () => instance,
    draw(option) {
      current = option;
      afterPaint(draw);
    },
    resize(to) {
      element.style.height = `${to}px`;
      instance?.resize();
    },
  };
}
