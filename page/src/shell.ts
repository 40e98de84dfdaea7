// What every page has: the bar on top with the theme switch, cards, key figures, the foot.
import {h, svg} from './dom';
import {setTheme, themeChoice, type Choice} from './theme';

declare const __LICENCES__: string;

function mark(): SVGElement {
  const bar = (x: number, y: number, width: number, fill: string): SVGElement =>
    svg('rect', {x, y, width, height: 4, rx: 1.5, fill: `var(--${fill})`});
  return svg(
    'svg',
    {width: 22, height: 18, viewBox: '0 0 22 18', 'aria-hidden': 'true'},
    bar(0, 1, 13, 'accent'),
    bar(6, 7, 10, 'ag'),
    bar(11, 13, 11, 'accent'),
  );
}

function themeSwitch(): HTMLElement {
  const next: Record<Choice, Choice> = {system: 'light', light: 'dark', dark: 'system'};
  const names: Record<Choice, string> = {system: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark'};
  const button = h('button', {type: 'button', class: 'button', id: 'theme'}, names[themeChoice()]);
  button.addEventListener('click', () => {
    setTheme(next[themeChoice()]);
    button.textContent = names[themeChoice()];
  });
  return button;
}

export function topbar(what: string, ...tools: HTMLElement[]): HTMLElement {
  return h(
    'header',
    {class: 'topbar'},
    h('span', {class: 'wordmark'}, mark(), 'stepcast'),
    h('span', {class: 'what'}, what),
    h('span', {class: 'grow'}),
    ...tools,
    h('button', {type: 'button', class: 'button', onclick: () => window.print()}, 'Print'),
    themeSwitch(),
  );
}

export function headline(title: string, subtitle: string, chip?: HTMLElement | null): HTMLElement {
  return h(
    'div',
    {class: 'headline'},
    h('div', {}, h('h1', {}, title), h('p', {class: 'subtitle'}, subtitle)),
    chip ?? null,
  );
}

export interface Kpi {
  label: string;
  value: string;
  unit?: string;
  note?: string;
  tone?: 'better' | 'worse' | '';
  meter?: number; // 0 to 1 and beyond
  title?: string;
}

export function kpis(list: Kpi[]): HTMLElement {
  return h(
    'div',
    {class: 'kpis'},
    ...list.map((kpi) =>
      h(
        'div',
        {class: 'kpi', title: kpi.title},
        h('div', {class: 'label'}, kpi.label),
        h('div', {class: 'value'}, kpi.value, kpi.unit ? h('small', {}, kpi.unit) : null),
        h('div', {class: `note ${kpi.tone ?? ''}`}, kpi.note ?? ''),
        kpi.meter === undefined
          ? null
          : h(
              'div',
              {class: kpi.meter > 1 ? 'meter over' : 'meter', 'aria-hidden': 'true'},
              h('span', {style: `width:${Math.min(1, kpi.meter) * 100}%`}),
            ),
      ),
    ),
  );
}

export function card(title: string, lead: string, ...children: (HTMLElement | SVGElement | null)[]): HTMLElement {
  const tools = children.filter((child) => child?.classList.contains('tools'));
  return h(
    'section',
    {class: 'card', 'aria-label': title},
    h('header', {}, h('div', {}, h('h2', {}, title), lead ? h('p', {class: 'lead'}, lead) : null), ...tools),
    ...children.filter((child) => !tools.includes(child)),
  );
}

export function notes(list: string[], title = 'Notes'): HTMLElement | null {
  if (!list.length) return null;
  return card(title, '', h('ul', {class: 'notes'}, ...list.map((note) => h('li', {}, note))));
}

export function foot(version: string | undefined, ...more: HTMLElement[]): HTMLElement {
  return h(
    'footer',
    {class: 'foot'},
    h('span', {}, `stepcast ${version ?? ''}: a forecast, as good as its worst large part.`),
    ...more,
    h('details', {}, h('summary', {}, 'Licences of what draws this page'), h('pre', {}, __LICENCES__)),
  );
}
