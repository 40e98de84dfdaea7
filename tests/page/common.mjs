// What the tests of the page share: checks, the program, a browser, a server.
import {execFileSync, spawn} from 'node:child_process';
import {existsSync, mkdtempSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

export const program = process.env.STEPCAST_PROGRAM;
const modules = process.env.STEPCAST_PAGE_MODULES;
const browsers = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

export function skip(why) {
  console.log(`skipped: ${why}`);
  process.exit(77);
}

let failed = 0;
export function check(what, holds, seen) {
  if (holds) return;
  ++failed;
  console.error(`failed: ${what}${seen === undefined ? '' : ` (${JSON.stringify(seen)})`}`);
}
export function finish() {
  console.log(failed ? `${failed} checks failed` : 'all checks hold');
  process.exit(failed ? 1 : 0);
}

export function run(...args) {
  try {
    return {code: 0, out: execFileSync(program, args, {encoding: 'utf8', stdio: 'pipe'}), err: ''};
  } catch (error) {
    return {code: error.status, out: error.stdout ?? '', err: error.stderr ?? ''};
  }
}

export const folder = mkdtempSync(join(tmpdir(), 'stepcast-page-'));
process.on('exit', () => rmSync(folder, {recursive: true, force: true}));

export function needHtml() {
  const tried = run('simulate', '--model', 'gpt2', '--cluster', 'dgx-h100', '--strategy', 'ddp', '--report', join(folder, 'probe.html'));
  if (/HTML is off/.test(tried.err)) skip('the program was built without HTML');
  if (tried.code !== 0) {
    console.error(tried.err);
    process.exit(1);
  }
}

// A page whose errors and console errors are collected in `page.errors`.
export async function browser() {
  const executablePath = browsers.find((each) => existsSync(each));
  if (!executablePath) skip('no Chromium');
  if (!existsSync(join(modules, 'playwright-core'))) skip('no playwright-core in build/page');
  const {chromium} = createRequire(join(modules, 'x.js'))('playwright-core');
  const made = await chromium.launch({executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage']});
  const open = async (url, options = {}) => {
    const context = await made.newContext({viewport: {width: 1280, height: 900}, colorScheme: 'light', ...options});
    const page = await context.newPage();
    page.errors = [];
    page.on('console', (message) => message.type() === 'error' && page.errors.push(message.text()));
    page.on('pageerror', (error) => page.errors.push(error.message));
    page.on('request', (request) => {
      if (/^https?:/.test(request.url()) && !/^http:\/\/(127\.0\.0\.1|localhost)[:/]/.test(request.url())) page.errors.push(`asked the network for ${request.url()}`);
    });
    await page.goto(url);
    return page;
  };
  return {open, close: () => made.close()};
}

// `stepcast serve` on a free port: its address, and how it ended.
export function serve(...args) {
  const child = spawn(program, ['serve', '--port', '0', ...args], {stdio: ['ignore', 'pipe', 'pipe']});
  process.on('exit', () => child.kill('SIGKILL'));
  const ended = new Promise((resolve) => child.on('exit', (code, signal) => resolve({code, signal})));
  return new Promise((resolve, reject) => {
    let said = '';
    let error = '';
    child.stderr.on('data', (text) => (error += text));
    child.stdout.on('data', (text) => {
      said += text;
      const found = /http:\/\/\S+/.exec(said);
      if (found) resolve({address: found[0], child, ended});
    });
    child.on('exit', () => reject(new Error(`serve ended: ${error}`)));
  });
}
