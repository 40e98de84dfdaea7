// Reports in a browser: they render without errors and without a network, and what a reader does
// changes what is shown.
import {readFileSync, statSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {deflateSync} from 'node:zlib';
import {browser, check, finish, folder, needHtml, run} from './common.mjs';

needHtml();
const file = (name) => join(folder, name);
const example = 'examples/llama-3-8b-fsdp2-16-nodes.toml';
const forecast = JSON.parse(run('simulate', example, '--json').out);
check('simulate writes a report', run('simulate', example, '--report', file('step.html')).code === 0);
check('a report is below 3 MB', statSync(file('step.html')).size < 3e6, statSync(file('step.html')).size);

// Documents that other commands write, and names that try to be markup.
const page = readFileSync(file('step.html'), 'utf8');
const holder = /(<script type="application\/json" id="document">)([\s\S]*?)(<\/script>)/;
const withDocument = (name, kind, document) =>
  writeFileSync(file(name), page.replace(holder, (_, a, __, c) => a + JSON.stringify({kind, version: '0', document}).replace(/</g, '\\u003c') + c));
const outputs = [
  {key: 'step_time_s', label: 'step time', unit: 's', better: 'lower'},
  {key: 'tokens_per_s', label: 'tokens/s', unit: '1/s', better: 'higher'},
  {key: 'world_size', label: 'GPUs', unit: '1', better: null},
];
const points = [];
for (const strategy of ['ddp', '<img src=x onerror=alert(1)>'])
  for (const nodes of [1, 2, 4]) points.push({inputs: {strategy, nodes}, engine: 'formula', state: 'ok', fits: true, error: null, world_size: nodes * 8, step_time_s: 1 + nodes / 100, tokens_per_s: nodes * 1000 * (strategy === 'ddp' ? 1 : 1.1)});
withDocument('sweep.html', 'sweep', {
  schema: 'stepcast.sweep/1',
  scenario: {model: 'gpt2', cluster: 'dgx-h100'},
  varied: [
    {key: 'strategy', type: 'word', values: ['ddp', '<img src=x onerror=alert(1)>']},
    {key: 'nodes', type: 'number', values: [1, 2, 4]},
  ],
  outputs,
  counts: {points: 6, fit: 6, does_not_fit: 0, error: 0},
  points,
  best: {by: 'tokens_per_s', points: [5]},
  pareto: {x: 'world_size', y: 'tokens_per_s', points: []},
});
// As the program writes a large one.
writeFileSync(file('large.html'), page.replace(holder, (_, a, __, c) => a + JSON.stringify({kind: 'unheard-of', deflated: deflateSync(JSON.stringify({rows: [{a: 'compressed, and read'}]})).toString('base64')}) + c));
withDocument('other.html', 'unheard-of', {title: 'x', rows: [{a: 1, b: 'two'}], deep: {c: {d: 3}}});

const chrome = await browser();

// ---- a step
const step = await chrome.open(`file://${file('step.html')}`);
await step.waitForSelector('.chart canvas');
await step.waitForSelector('.uplot');
const text = (selector) => step.locator(selector).first().innerText();
check('the title names the step', (await step.title()).startsWith('llama-3-8b, fsdp2 on 128 GPUs'), await step.title());
check('the step time is the forecast’s', (await text('.kpi .value')).replace(/\s/g, '') === `${forecast.step_time_s.toFixed(3)}s`, await text('.kpi .value'));
const between = forecast.notes.find((note) => note.startsWith('8 steps in 10 take ')).match(/take (\S+) (\S+) to (\S+) (\S+);/);
const low = between[2] === between[4] ? between[1] : `${between[1]} ${between[2]}`; // a unit that both share stands once
check('the interval is the one that the terminal prints', (await text('.kpi .note')) === `8 in 10: ${low} to ${between[3]} ${between[4]}`, await text('.kpi .note'));
check('nothing on the page says that there is none', !(await step.locator('body').innerText()).includes('no interval'));
const cells = await step.locator('section[aria-label="Where the step goes"] tbody tr').count();
check('every cause has a row', cells === 5 + Object.keys(forecast.exposed_s).length - 1, cells);

const order = () => step.locator('section[aria-label="Where the step goes"] tbody tr td:nth-child(2)').allInnerTexts();
const before = (await order()).map((x) => Number(x.replace(/,/g, '')));
await step.locator('section[aria-label="Where the step goes"] th button', {hasText: 'ms'}).click();
const after = (await order()).map((x) => Number(x.replace(/,/g, '')));
check('a click on a head sorts', JSON.stringify(after) === JSON.stringify([...before].sort((a, b) => b - a)), after);
check('and says so', (await step.locator('section[aria-label="Where the step goes"] th[aria-sort="descending"]').count()) === 1);

const shot = () => step.locator('section[aria-label="The step on its streams"] .chart').first().screenshot();
// Both pictures of the whole step are taken after the same keys, with nothing focused or hovered.
const settle = async () => {
  await step.keyboard.press('0');
  await step.evaluate(() => document.activeElement.blur());
  await step.mouse.move(2, 2);
  await step.waitForTimeout(400);
};
await step.locator('section[aria-label="The step on its streams"] .chart').first().focus();
await settle();
const whole = await shot();
await step.locator('[aria-label="Zoom in (+)"]').click();
await step.waitForTimeout(150);
const nearer = await shot();
check('zooming changes the timeline', !whole.equals(nearer));
await step.locator('section[aria-label="The step on its streams"] .chart').first().focus();
await step.keyboard.press('ArrowRight');
await step.waitForTimeout(150);
check('an arrow key moves it', !nearer.equals(await shot()));
await settle();
// Pictures of one state may differ in a pixel's shade, by a few bytes of the file; of another zoom by
// hundreds.
const again = await shot();
check('0 shows the whole step again', Math.abs(again.length - whole.length) < 60 && Math.abs(nearer.length - whole.length) > 200, [whole.length, nearer.length, again.length]);

const box = await step.locator('section[aria-label="The step on its streams"] .chart canvas').first().boundingBox();
await step.mouse.move(box.x + 500, box.y + 24);
await step.waitForTimeout(200);
const tip = await step.locator('.tip').first().innerText();
check('what is under the pointer says its provenance', /provenance\s+modelled/.test(tip), tip);
await step.mouse.click(box.x + 500, box.y + 24);
await step.waitForTimeout(150);
check('a click keeps it', /provenance/.test(await step.locator('.selected').first().innerText()));

const background = () => step.evaluate(() => getComputedStyle(document.body).backgroundColor);
const light = await background();
await step.locator('#theme').click();
await step.locator('#theme').click();
check('the switch makes it dark', (await step.evaluate(() => document.documentElement.dataset.theme)) === 'dark' && (await background()) !== light);
check('charts have labels', (await step.locator('.chart:not([aria-label])').count()) === 0);
await step.emulateMedia({media: 'print'});
check('tools are not printed', !(await step.locator('.tools').first().isVisible()));
check('a step renders without errors', step.errors.length === 0, step.errors);

const dark = await chrome.open(`file://${file('step.html')}`, {colorScheme: 'dark'});
check('the system’s dark is followed', (await dark.evaluate(() => document.documentElement.dataset.theme)) === 'dark');
const narrow = await chrome.open(`file://${file('step.html')}`, {viewport: {width: 400, height: 800}});
await narrow.waitForSelector('.chart canvas');
const overflow = await narrow.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
check('a narrow window does not scroll sideways', overflow <= 0, overflow);
check('dark and narrow render without errors', dark.errors.length + narrow.errors.length === 0, [...dark.errors, ...narrow.errors]);

// ---- a sweep
const sweep = await chrome.open(`file://${file('sweep.html')}`);
await sweep.waitForSelector('section[aria-label="The knobs"] .chart svg');
check('names that are markup stay text', (await sweep.locator('img').count()) === 0);
const knobs = () => sweep.locator('section[aria-label="The knobs"] .chart').innerHTML();
const map = await knobs();
await sweep.locator('section[aria-label="The knobs"] label', {hasText: 'as'}).last().locator('select').selectOption('curves');
await sweep.waitForTimeout(250);
check('a sweep is drawn as curves too', map !== (await knobs()));
check('every point has a row', (await sweep.locator('section[aria-label="Every point"] tbody tr').count()) === 6);
check('a sweep renders without errors', sweep.errors.length === 0, sweep.errors);

const other = await chrome.open(`file://${file('other.html')}`);
check('a document of another kind is shown as tables', /two/.test(await other.locator('main').innerText()));
check('and without errors', other.errors.length === 0, other.errors);

const large = await chrome.open(`file://${file('large.html')}`);
await large.waitForSelector('td');
check('a compressed document is read', /compressed, and read/.test(await large.locator('main').innerText()));

await chrome.close();
finish();
