// `stepcast serve` as a program on the network sees it: what it answers, what it refuses, that a
// worker's end is not the server's, and that Ctrl-C ends it cleanly.
import {request} from 'node:http';
import {check, finish, needHtml, run, serve} from './common.mjs';

needHtml();
const {address, child, ended} = await serve('--workers', '2', '--time-limit', '3');
const port = new URL(address).port;

function ask(path, {method = 'GET', headers = {}, body} = {}) {
  return new Promise((resolve) => {
    const asked = request({host: '127.0.0.1', port, path, method, headers: {Connection: 'close', ...headers}}, (answer) => {
      let text = '';
      answer.setEncoding('utf8');
      answer.on('data', (part) => (text += part));
      answer.on('end', () => resolve({status: answer.statusCode, type: answer.headers['content-type'] ?? '', text, headers: answer.headers}));
    });
    asked.on('error', (error) => resolve({status: 0, text: String(error), type: '', headers: {}}));
    asked.end(body);
  });
}
const small = 'model=gpt2&cluster=dgx-h100&strategy=ddp&seq_len=1024';
async function refused(what, path, status, words, options) {
  const answer = await ask(path, options);
  let sentence = '';
  try {
    sentence = JSON.parse(answer.text).error;
  } catch {
    sentence = answer.text;
  }
  check(`${what} gets ${status} and a sentence`, answer.status === status && sentence.includes(words) && !sentence.includes('\n'), [answer.status, sentence]);
}

// ---- what it answers
const page = await ask('/');
check('the page is there', page.status === 200 && page.type.startsWith('text/html') && page.text.includes('"kind":"serve"'));
check('and may not be framed', page.headers['x-frame-options'] === 'DENY');
const step = await ask(`/api/simulate?${small}`);
const forecast = JSON.parse(step.text).forecast;
const same = JSON.parse(run('simulate', '--model', 'gpt2', '--cluster', 'dgx-h100', '--strategy', 'ddp', '--seq-len', '1024', '--json').out);
check('a step is the command line’s', JSON.stringify(forecast) === JSON.stringify(same));
const scenario = await ask(`/api/scenario.toml?${small}`);
check('the scenario is TOML', scenario.text.includes('strategy = "ddp"') && /attachment/.test(scenario.headers['content-disposition']), scenario.text);
check('the JSON is the forecast', JSON.parse((await ask(`/api/forecast.json?${small}`)).text).schema === 'stepcast.forecast/1');
check('the trace is one', JSON.parse((await ask(`/api/trace.json?${small}`)).text).traceEvents.length > 10);
check('a series of nodes is given', JSON.parse((await ask(`/api/scaling?${small}`)).text).points.length >= 4);

// ---- what it refuses
await refused('another host', '/', 403, 'Host', {headers: {Host: `evil.example:${port}`}});
await refused('another port', '/', 403, 'Host', {headers: {Host: '127.0.0.1:1'}});
check('localhost is this host', (await ask('/', {headers: {Host: `localhost:${port}`}})).status === 200);
await refused('a page of another site', `/api/simulate?${small}`, 403, 'another site', {headers: {'Sec-Fetch-Site': 'cross-site'}});
await refused('POST', '/', 405, 'GET', {method: 'POST', body: 'x'.repeat(5000)});
await refused('DELETE', `/api/simulate?${small}`, 405, 'GET', {method: 'DELETE'});
await refused('another path', '/etc/passwd', 404, 'no such page');
await refused('a path above', '/../../etc/passwd', 404, 'no such page');
await refused('another question', '/api/shell', 404, 'accepted: simulate');
await refused('an address too long', `/api/simulate?${small}&wrap=${'x'.repeat(9000)}`, 414, 'too long');
await refused('a file for a model', '/api/simulate?model=/etc/passwd&cluster=dgx-h100&strategy=ddp', 400, 'model');
await refused('a file for a machine', '/api/simulate?model=gpt2&cluster=./x.toml&strategy=ddp', 400, 'cluster');
await refused('a file for a profile', `/api/simulate?${small}&profile=../x.toml`, 400, 'profile');
await refused('a key that reads files', `/api/simulate?${small}&calibration=/etc/passwd`, 400, 'not a knob');
await refused('an unknown key', `/api/simulate?${small}&nodez=2`, 400, 'not a knob');
await refused('a key said twice', `/api/simulate?${small}&model=gpt2-large`, 400, 'twice');
await refused('no model', '/api/simulate?cluster=dgx-h100&strategy=ddp', 400, 'missing');
await refused('zero nodes', `/api/simulate?${small}&nodes=0`, 400, 'accepted: 1 to');
await refused('no number', `/api/simulate?${small}&nodes=nan`, 400, 'nodes');
await refused('an empty value', `/api/simulate?${small}&nodes=`, 400, 'accepted: a value');
await refused('a control character', `/api/simulate?${small}&wrap=a%0Ab`, 400, 'control character');
await refused('markup', `/api/simulate?${small}&wrap=%3Cscript%3E`, 400, 'wrap');
await refused('a step that takes too long', '/api/simulate?model=llama-3-70b&cluster=dgx-h100&strategy=fsdp2&nodes=512&accumulation=32000&seq_len=8192', 504, 'took longer than 3 s').catch(() => 0);

// ---- it lives on
check('after all that it answers', (await ask(`/api/simulate?${small}`)).status === 200);
const many = await Promise.all(Array.from({length: 12}, () => ask(`/api/simulate?${small}&nodes=2`)));
check('twelve at once are all answered', many.every((answer) => answer.status === 200), many.map((answer) => answer.status));
const slow = ask('/api/simulate?model=llama-3-70b&cluster=dgx-h100&strategy=fsdp2&nodes=64&accumulation=2000&seq_len=8192&page=p');
await new Promise((resolve) => setTimeout(resolve, 200));
const began = Date.now();
check('a newer question is answered', (await ask(`/api/simulate?${small}&page=p`)).status === 200);
check('and ends the older one', (await slow).status === 409 && Date.now() - began < 2500, Date.now() - began);

const times = [];
for (let i = 0; i < 9; ++i) {
  const from = performance.now();
  await ask(`/api/simulate?model=llama-3-8b&cluster=dgx-h100&strategy=fsdp2&nodes=${16 + i}&seq_len=8192&checkpointing=full`);
  times.push(performance.now() - from);
}
console.log(`a step is answered in ${Math.min(...times).toFixed(0)} ms at best, ${times.sort((a, b) => a - b)[4].toFixed(0)} ms in the median`);

child.kill('SIGINT');
const end = await Promise.race([ended, new Promise((resolve) => setTimeout(() => resolve('still there'), 8000))]);
check('Ctrl-C ends it cleanly', end.code === 0, end);
check('a port that is no number is refused', run('serve', '--port', '99999').code === 2);
check('an address that is not here is refused', run('serve', '--host', '203.0.113.7').code === 2);
finish();
