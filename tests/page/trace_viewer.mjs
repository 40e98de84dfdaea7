// Simulated traces in Catapult's trace viewer: what chrome://tracing was, and what TensorBoard's
// profiler plugin shows. The viewer's own importer reads them, and what it understood is held
// against the file and the forecast: every slice with its time, nesting, streams by name, and an
// arrow from each launch to its kernel.
import {existsSync, readFileSync, readdirSync} from 'node:fs';
import {createServer} from 'node:http';
import {join} from 'node:path';
import {browser, check, finish, folder, run, skip} from './common.mjs';

// Where ./dev puts it, or where Debian's golang-src does.
const places = [process.env.STEPCAST_TRACE_VIEWER, ...(existsSync('/usr/share') ? readdirSync('/usr/share').filter((name) => /^go-/.test(name)).map((name) => `/usr/share/${name}/src/cmd/trace/static`) : [])];
const viewer = places.find((place) => place && existsSync(join(place, 'trace_viewer_full.html')));
if (!viewer) skip('no trace viewer (./dev test fetches it)');

const cases = {
  // Streams of their own for gathers and reductions, copies, a checkpoint.
  fsdp2: {step: 'simulate --model llama-2-7b --cluster dgx-h100 --nodes 2 --strategy fsdp2 --seq-len 2048 --checkpointing full'},
  // The host waits for what it fetches.
  zero3: {step: 'simulate --model gpt2 --cluster dgx-h100 --strategy zero3 --seq-len 256'},
  // Two roles of one process: GPU 0, the rest.
  dp: {step: 'simulate --model gpt2 --cluster titan-rtx-2x --strategy dp --seq-len 128'},
  // A file a rank, one of them late, packed.
  ddp: {step: 'simulate --model gpt2 --cluster dgx-h100 --strategy ddp --seq-len 1024 --perturb rank=5:slow=0.8', ranks: [0, 5], packed: true},
};

const files = new Map();
for (const [name, it] of Object.entries(cases)) {
  const path = join(folder, `${name}.json${it.packed ? '.gz' : ''}`);
  const ranks = it.ranks ? ['--trace-ranks', it.ranks.join(',')] : [];
  const made = run(...it.step.split(' '), '--json', '--trace', path, ...ranks);
  check(`${name} is simulated`, made.code === 0, made.err);
  if (made.code !== 0) finish();
  it.forecast = JSON.parse(made.out);
  it.files = it.ranks ? it.ranks.map((rank) => path.replace('.json', `.rank${rank}.json`)) : [path];
  it.files.forEach((file, i) => files.set(`/${name}.${i}`, readFileSync(file)));
}

const page = `<html><head><script src="/webcomponents.min.js"></script><link rel="import" href="/trace_viewer_full.html"></head></html>`;
const server = createServer((request, response) => {
  const send = (type, body) => response.writeHead(200, {'content-type': type}).end(body);
  if (request.url === '/') return send('text/html', page);
  if (files.has(request.url)) return send('application/octet-stream', files.get(request.url));
  const file = join(viewer, request.url.slice(1).replace(/[^\w.]/g, ''));
  if (!existsSync(file)) return response.writeHead(404).end();
  send(file.endsWith('.js') ? 'text/javascript' : 'text/html', readFileSync(file));
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const chrome = await browser();
const tab = await chrome.open(`http://127.0.0.1:${server.address().port}/`);
await tab.waitForFunction(() => window.tr?.importer?.Import, null, {timeout: 60000});

// In the browser: the viewer's model of the files, as plain data. Its times are milliseconds.
const read = (urls) =>
  tab.evaluate(async (urls) => {
    const bodies = [];
    for (const url of urls) bodies.push(await (await fetch(url)).arrayBuffer());
    const options = new tr.importer.ImportOptions();
    options.shiftWorldToZero = false;
    const model = new tr.Model();
    // Text as text, gzip as it is: the importer unpacks it.
    const texts = bodies.map((body) => (new Uint8Array(body)[0] === 0x1f ? body : new TextDecoder().decode(body)));
    new tr.importer.Import(model, options).importTraces(texts);
    const plain = (slice) => ({title: slice.title, category: slice.category, start: slice.start, duration: slice.duration, correlation: slice.args?.correlation});
    const tracks = [];
    const counters = [];
    for (const process of Object.values(model.processes)) {
      for (const counter of Object.values(process.counters)) counters.push({pid: process.pid, name: counter.name, samples: counter.timestamps.length});
      for (const thread of Object.values(process.threads)) {
        let outside = 0;
        let overlaps = 0;
        const rounding = 3e-6; // two ends of three decimals of a microsecond
        const walk = (slices, from, to) => {
          let last = from;
          for (const slice of [...slices].sort((a, b) => a.start - b.start)) {
            if (slice.start < from - rounding || slice.end > to + rounding) ++outside;
            if (slice.start < last - rounding) ++overlaps;
            last = Math.max(last, slice.end);
            walk(slice.subSlices, slice.start, slice.end);
          }
        };
        walk(thread.sliceGroup.topLevelSlices, -Infinity, Infinity);
        tracks.push({pid: process.pid, tid: thread.tid, name: thread.name, label: process.labels?.join(), slices: thread.sliceGroup.slices.map(plain), outside, overlaps});
      }
    }
    return {
      warnings: model.importWarnings.map((warning) => `${warning.type}: ${warning.message}`),
      tracks,
      counters,
      arrows: model.flowEvents.map((flow) => ({from: flow.startSlice && plain(flow.startSlice), to: flow.endSlice && plain(flow.endSlice)})),
    };
  }, urls);

const {gunzipSync} = await import('node:zlib');
const text = (buffer) => (buffer[0] === 0x1f ? gunzipSync(buffer) : buffer).toString('utf8');
const near = (a, b) => Math.abs(a - b) <= 2e-6;

for (const [name, it] of Object.entries(cases)) {
  const urls = it.files.map((_, i) => `/${name}.${i}`);
  const seen = await read(urls);
  const events = urls.flatMap((url) => JSON.parse(text(files.get(url))).traceEvents);
  check(`${name}: nothing to complain of`, seen.warnings.length === 0, [seen.warnings.length, ...seen.warnings.slice(0, 3)]);

  // Every slice of the file, on its track, with its time.
  const written = new Map();
  for (const event of events.filter((event) => event.ph === 'X')) {
    const key = `${event.pid}/${event.tid}`;
    written.set(key, [...(written.get(key) ?? []), event]);
  }
  check(`${name}: as many tracks as the file has`, seen.tracks.filter((track) => track.slices.length > 0).length === written.size);
  const order = (a, b) => a.start - b.start || b.duration - a.duration || (a.title < b.title ? -1 : a.title > b.title ? 1 : 0);
  for (const track of seen.tracks) {
    const ours = (written.get(`${track.pid}/${track.tid}`) ?? []).map((event) => ({title: event.name, category: event.cat, start: event.ts / 1000, duration: event.dur / 1000})).sort(order);
    const theirs = [...track.slices].sort(order);
    check(`${name} ${track.name}: as many slices as the file has`, ours.length === theirs.length, [ours.length, theirs.length]);
    const odd = ours.find((slice, i) => !theirs[i] || slice.title !== theirs[i].title || slice.category !== theirs[i].category || !near(slice.start, theirs[i].start) || !near(slice.duration, theirs[i].duration));
    check(`${name} ${track.name}: each with its name, start and length`, !odd, odd);
    check(`${name} ${track.name}: slices lie within the one around them`, track.outside === 0, track.outside);
    check(`${name} ${track.name}: slices follow each other`, track.overlaps === 0, track.overlaps);
    check(`${name}: a track has a name`, /^(stream \d+ \(|thread \d+ \(|steps$)/.test(track.name ?? ''), track.name);
  }

  // An arrow for each kernel and copy, from its launch.
  const kernels = seen.tracks.flatMap((track) => track.slices).filter((slice) => /^(kernel|gpu_memcpy)$/.test(slice.category));
  check(`${name}: kernels are there`, kernels.length > 20, kernels.length);
  check(`${name}: an arrow a kernel`, seen.arrows.length === kernels.length, [seen.arrows.length, kernels.length]);
  const astray = seen.arrows.filter((arrow) => arrow.from?.category !== 'cuda_runtime' || !/^(kernel|gpu_memcpy)$/.test(arrow.to?.category) || arrow.from.correlation !== arrow.to.correlation);
  check(`${name}: each from its own launch`, astray.length === 0, [astray.length, astray[0]]);
  check(`${name}: no launch after its kernel began`, seen.arrows.every((arrow) => !(arrow.from?.start > arrow.to?.start + 2e-6)));

  // The last step is the forecast's.
  const steps = seen.tracks.flatMap((track) => track.slices.filter((slice) => slice.category === 'gpu_user_annotation' && /^ProfilerStep#/.test(slice.title)));
  const last = Math.max(...steps.map((slice) => slice.start));
  const step = (it.forecast.perturbed ?? it.forecast).step_time_s * 1000;
  check(`${name}: the last step is as long as the forecast`, steps.filter((slice) => slice.start === last).every((slice) => Math.abs(slice.duration - step) < 1e-4 * step), [step, steps.map((slice) => slice.duration)]);
  check(`${name}: memory is a counter`, seen.counters.some((counter) => /allocated/.test(counter.name) && counter.samples > 10), seen.counters);
  if (it.ranks) check(`${name}: the ranks stand beside each other`, it.ranks.every((rank) => seen.tracks.some((track) => track.pid === rank % 8)), seen.tracks.map((track) => track.pid));
}

await chrome.close();
server.close();
finish();
