import './style/base.css';
import './style/page.css';
import './style/table.css';
import './style/serve.css';
import './style/print.css';
import {read} from './document';
import {download, h} from './dom';
import {foot, topbar} from './shell';
import {startTheme} from './theme';
import {compareView, explainView} from './views/explain';
import {genericView} from './views/generic';
import {planView} from './views/plan';
import {publishedView} from './views/published';
import {serve} from './views/serve';
import {simulateView, title} from './views/simulate';
import {sweepView} from './views/sweep';
import {validateView, validateSweepView} from './views/validate';

const kinds: Record<string, {what: string; view: (document: any) => HTMLElement[]; name: (document: any) => string}> = {
  simulate: {what: 'forecast of a training step', view: simulateView, name: (d) => title(d.forecast)},
  sweep: {what: 'sweep', view: sweepView, name: (d) => `sweep of ${d.scenario?.model ?? 'a scenario'}`},
  plan: {what: 'plan', view: planView, name: (d) => `plan for ${d.model}`},
  validate: {what: 'forecast beside a run', view: validateView, name: (d) => `${d.strategy} ${d.model}, forecast and measured`},
  'validate-sweep': {what: 'forecasts beside runs', view: validateSweepView, name: (d) => `${d.key} varied, forecast and measured`},
  explain: {what: 'explanation', view: explainView, name: (d) => `why ${d.model} takes its time`},
  compare: {what: 'comparison', view: compareView, name: (d) => `${d.a.name} and ${d.b.name}`},
  published: {what: 'accuracy ledger', view: publishedView, name: () => 'forecasts beside published measurements'},
};

async function start(): Promise<void> {
  startTheme();
  const app = document.getElementById('app')!;
  const page = await read();
  if (page.kind === 'serve') {
    serve(app, page);
    return;
  }
  const known = kinds[page.kind];
  const body = page.document ?? {};
  const views = known ? known.view(body) : genericView(page.kind, body);
  document.title = known ? `${known.name(body)} · stepcast` : 'stepcast';
  const json = h(
    'button',
    {type: 'button', class: 'button', onclick: () => download(`stepcast-${page.kind}.json`, 'application/json', JSON.stringify(body.forecast ?? body, null, 2))},
    'JSON',
  );
  app.append(h('main', {class: 'page'}, topbar(known?.what ?? page.kind, json), ...views, foot(page.version)));
}

void start();
