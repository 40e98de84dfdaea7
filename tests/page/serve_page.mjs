// The served page in a browser: a knob changes the step, the address shares it, files are saved.
import {browser, check, finish, needHtml, serve} from './common.mjs';

needHtml();
const chrome = await browser();
const {address, child} = await serve();
const page = await chrome.open(address);
const step = () => page.locator('.kpi .value').first().innerText();
const settled = async (act) => {
  const answered = page.waitForResponse((response) => response.url().includes('/api/simulate'));
  await act();
  await answered;
  await page.waitForTimeout(120);
};
await page.waitForSelector('.kpi .value');
const first = await step();
check('the first step is shown', /\d/.test(first), first);

await settled(() => page.locator('select[name=strategy]').selectOption('ddp'));
check('DDP brings its bucket size', await page.locator('input[name=bucket_cap_mb]').isVisible());
check('and no knob of another strategy', !(await page.locator('select[name=sharding_strategy]').isVisible()));
check('and does not fit this model', /does not fit/.test(await page.locator('.chip').first().innerText()));
await settled(() => page.locator('select[name=model]').selectOption('gpt2'));
const gpt2 = await step();
check('another model is another step', gpt2 !== first, gpt2);
await settled(() => page.locator('input[name=nodes]').fill('2'));
await settled(() => page.locator('select[name=network]').selectOption('ethernet'));
await settled(() => page.locator('input[name=nic_gbps]').fill('1.25'));
const slow = await step();
await page.locator('#pin').click();
await settled(() => page.locator('input[name=bucket_cap_mb]').fill('200'));
check('a bucket size changes the step', (await step()) !== slow, [slow, await step()]);
check('and is held against what is pinned', /pinned/.test(await page.locator('.kpi .note').first().innerText()));
check('the address holds the configuration', /bucket_cap_mb=200/.test(page.url()) && /network=ethernet/.test(page.url()), page.url());

const shared = await chrome.open(page.url());
await shared.waitForSelector('.kpi .value');
check('the address shows the same step to others', (await shared.locator('.kpi .value').first().innerText()) === (await step()));
check('with the knobs where they were', (await shared.locator('input[name=bucket_cap_mb]').inputValue()) === '200');

const saving = page.waitForEvent('download');
await page.locator('a[data-file="scenario.toml"]').click();
check('the scenario is saved', (await saving).suggestedFilename() === 'scenario.toml');
await page.waitForSelector('section[aria-label="On more and on fewer nodes"] .chart svg');
check('a series of nodes follows', true);
check('no errors so far', page.errors.length === 0, page.errors);

await settled(() => page.locator('input[name=nodes]').fill('0'));
check('a wrong value is answered with a sentence', /nodes/.test(await page.locator('.message').innerText()));
await settled(() => page.locator('input[name=nodes]').fill('4'));
check('and mended', /\d/.test(await step()));
// The refused value is an answer of status 400, which a browser also logs.
check('no other errors', [...page.errors, ...shared.errors].every((error) => /400/.test(error)), page.errors);
console.log(`the page says: ${await page.locator('.status').innerText()}`);
await chrome.close();
child.kill('SIGTERM');
finish();
