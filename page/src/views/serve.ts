// `stepcast serve`: the page of a step, alive. Every change asks the server for the step as it then
// is; a newer question takes the place of an older one. The address holds the configuration.
import type {StepDocument, Wrapped} from '../document';
import {copy, h} from '../dom';
import {query, type Options, type Values} from '../knobs';
import {panel} from '../panel';
import {scalingCard} from '../parts/scaling';
import {foot, headline, topbar} from '../shell';
import {figures, fitChip, sections, subtitle, title} from './simulate';

export function serve(app: HTMLElement, page: Wrapped): void {
  const options = page.document as Options;
  const values: Values = {...options.defaults};
  const asked = new URLSearchParams(location.search);
  if ([...asked.keys()].length) {
    for (const key of Object.keys(values)) if (!['model', 'cluster', 'strategy'].includes(key)) delete values[key];
    for (const [key, value] of asked) values[key] = value;
  }

  const status = h('p', {class: 'status', role: 'status', 'aria-live': 'polite'});
  const result = h('div', {class: 'result'});
  const scaling = h('div', {});
  const id = Math.random().toString(36).slice(2); // so that a newer question ends an older one
  let pinned: StepDocument | null = null;
  let current: StepDocument | null = null;
  let question: AbortController | null = null;
  let idle = 0;

  const pin = h('button', {type: 'button', class: 'button', id: 'pin', 'aria-pressed': 'false'}, 'Pin to compare');
  pin.addEventListener('click', () => {
    pinned = pinned ? null : current;
    pin.setAttribute('aria-pressed', String(pinned !== null));
    pin.textContent = pinned ? 'Unpin' : 'Pin to compare';
    if (current) show(current);
  });
  const link = h('button', {type: 'button', class: 'button'}, 'Copy link');
  link.addEventListener('click', async () => {
    link.textContent = (await copy(location.href)) ? 'Copied' : 'Not copied';
    setTimeout(() => (link.textContent = 'Copy link'), 1600);
  });
  const save = (text: string, file: string): HTMLAnchorElement => h('a', {class: 'button', download: file.replace(/.*\//, ''), 'data-file': file}, text);
  const saves = [save('Scenario', 'scenario.toml'), save('JSON', 'forecast.json'), save('Trace', 'trace.json')];

  const show = (d: StepDocument): void => {
    current = d;
    document.title = `${title(d.forecast)} · stepcast`;
    result.style.minHeight = `${result.offsetHeight}px`; // the page does not jump
    result.replaceChildren(headline(title(d.forecast), subtitle(d.forecast), fitChip(d.forecast)), figures(d, pinned?.forecast), ...sections(d), scaling);
    requestAnimationFrame(() => (result.style.minHeight = ''));
  };

  const ask = async (what: string, search: URLSearchParams, signal?: AbortSignal): Promise<any> => {
    const answer = await fetch(`/api/${what}?${search}&page=${id}`, {signal});
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.error ?? `the server answered ${answer.status}`);
    return body;
  };

  const update = async (): Promise<void> => {
    const search = query(options, values);
    history.replaceState(null, '', `?${search}`);
    for (const each of saves) each.href = `/api/${each.dataset.file}?${search}`;
    question?.abort();
    question = new AbortController();
    const mine = question;
    window.clearTimeout(idle);
    result.classList.add('working');
    const began = performance.now();
    try {
      const answer = (await ask('simulate', search, mine.signal)) as StepDocument;
      if (mine !== question) return;
      scaling.replaceChildren();
      show(answer);
      status.textContent = `Forecast in ${Math.round(performance.now() - began)} ms.`;
      status.dataset.milliseconds = String(Math.round(performance.now() - began));
      idle = window.setTimeout(async () => {
        try {
          const curve = await ask('scaling', search, mine.signal);
          if (mine === question && curve.points.length > 1) scaling.replaceChildren(scalingCard(curve));
        } catch {
          // the next change asks again
        }
      }, 500);
    } catch (error) {
      if (mine.signal.aborted) return;
      status.textContent = '';
      scaling.replaceChildren();
      current = null;
      result.replaceChildren(h('div', {class: 'message', role: 'alert'}, (error as Error).message));
    } finally {
      if (mine === question) result.classList.remove('working');
    }
  };

  let soon = 0;
  const form = panel(options, values, () => {
    window.clearTimeout(soon);
    soon = window.setTimeout(update, 25);
  });
  app.append(
    h(
      'div',
      {class: 'page serve'},
      h('aside', {class: 'panel', 'aria-label': 'Scenario'}, form.element, h('div', {class: 'tools'}, pin, link), h('div', {class: 'tools', style: 'margin-top:6px'}, ...saves), status),
      h('main', {}, topbar('forecasts of a training step, here'), result, foot(page.version)),
    ),
  );
  void update();
}
