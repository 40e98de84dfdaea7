// One node as a drawing, with how busy the step keeps each class of link. A NUMA node is a frame
// around what hangs below it; GPUs face the NVSwitch below, NICs the fabric above.
import type {Topology} from '../document';
import {h, svg} from '../dom';
import {digits, percent, plain} from '../format';
import {table} from '../table';

interface Place {
  x: number;
  y: number;
}
const column = 74;
const rows = {fabric: 24, nic: 92, pcie: 158, gpu: 224, nvswitch: 296};

const resourceNames: Record<string, string> = {
  sm: 'SMs',
  hbm: 'HBM',
  nvlink: 'NVLink',
  pcie: 'PCIe',
  nic: 'NIC',
  fabric: 'fabric',
  storage: 'storage',
};

// Devices below a CPU, in groups that share a PCIe switch.
interface Group {
  hub: number; // the switch, or the CPU itself
  leaves: number[];
}

export function topologyDrawing(t: Topology): HTMLElement {
  const shareOf = (resource: string): number => t.busy.find((each) => each.resource === resource)?.share ?? 0;
  const neighbours = new Map<number, {to: number; kind: string}[]>();
  for (const link of t.links) {
    for (const [from, to] of [
      [link.a, link.b],
      [link.b, link.a],
    ]) {
      if (!neighbours.has(from)) neighbours.set(from, []);
      neighbours.get(from)!.push({to, kind: link.kind});
    }
  }
  const kind = (at: number): string => t.devices[at].kind;
  const places = new Map<number, Place>();
  const frames: {cpu: number; from: number; to: number}[] = [];
  let x = 34;

  const below = (from: number, parent: number, group: Group): void => {
    for (const {to, kind: link} of neighbours.get(from) ?? []) {
      if (to === parent || (link !== 'pcie' && link !== 'c2c') || kind(to) === 'cpu') continue;
      if (kind(to) === 'pcie_switch') below(to, from, group);
      else group.leaves.push(to);
    }
  };
  t.devices.forEach((device, cpu) => {
    if (device.kind !== 'cpu') return;
    const groups: Group[] = [];
    const own: Group = {hub: cpu, leaves: []};
    for (const {to, kind: link} of neighbours.get(cpu) ?? []) {
      if (link !== 'pcie' && link !== 'c2c') continue;
      if (kind(to) === 'pcie_switch') {
        const group: Group = {hub: to, leaves: []};
        below(to, cpu, group);
        groups.push(group);
      } else if (kind(to) !== 'cpu') own.leaves.push(to);
    }
    if (own.leaves.length) groups.push(own);
    if (!groups.length) return;
    const from = x;
    for (const group of groups) {
      const gpus = group.leaves.filter((leaf) => kind(leaf) === 'gpu').sort((a, b) => t.devices[a].index - t.devices[b].index);
      const nics = group.leaves.filter((leaf) => kind(leaf) === 'nic').sort((a, b) => t.devices[a].index - t.devices[b].index);
      const width = Math.max(gpus.length, nics.length, 1);
      const spread = (list: number[], y: number): void =>
        list.forEach((leaf, at) => places.set(leaf, {x: x + column * ((at + 0.5) * (width / list.length)), y}));
      spread(gpus, rows.gpu);
      spread(nics, rows.nic);
      places.set(group.hub, {x: x + (column * width) / 2, y: rows.pcie});
      x += column * width;
    }
    frames.push({cpu, from, to: x});
    x += 30;
  });
  t.devices.forEach((device, at) => {
    if (device.kind === 'gpu' && !places.has(at)) {
      places.set(at, {x: x + column / 2, y: rows.gpu});
      x += column;
    }
  });
  const width = Math.max(x + 4, 320);
  const nics = t.devices.some((device, at) => device.kind === 'nic' && places.has(at));
  const frameTop = (nics ? rows.nic : rows.pcie) - 30;
  const top = t.fabric ? 0 : frameTop - 10;
  const hasSwitch = t.devices.some((device) => device.kind === 'nvswitch');
  const arcs = t.links.some((link) => link.kind === 'nvlink') && !hasSwitch;
  const height = hasSwitch || arcs ? rows.nvswitch + 36 : rows.gpu + 40;

  const stroke = (resource: string): {stroke: string; 'stroke-width': number} => {
    const share = Math.min(1, shareOf(resource));
    return share > 0.001
      ? {stroke: `color-mix(in srgb, var(--accent) ${25 + 75 * share}%, var(--line-strong))`, 'stroke-width': 1.4 + 4 * share}
      : {stroke: 'var(--line-strong)', 'stroke-width': 1.2};
  };
  const parts: SVGElement[] = [];
  const box = (at: Place, text: string, sub: string, fill: string, w = 60): SVGElement =>
    svg(
      'g',
      {},
      svg('rect', {x: at.x - w / 2, y: at.y - 16, width: w, height: 32, rx: 6, fill, stroke: 'var(--line-strong)'}),
      svg('text', {x: at.x, y: at.y + (sub ? -2 : 4), 'text-anchor': 'middle', 'font-weight': 600}, text),
      sub ? svg('text', {x: at.x, y: at.y + 11, 'text-anchor': 'middle', class: 'quiet', style: 'font-size:9.5px'}, sub) : null,
    );

  const labels: SVGElement[] = []; // over the links that cross them
  for (const frame of frames) {
    const cpu = t.devices[frame.cpu];
    const room = Math.floor((frame.to - frame.from) / 6.4);
    const name = `${cpu.name}${cpu.product ? `: ${cpu.product}` : ''}`;
    parts.push(
      svg('rect', {x: frame.from - 8, y: frameTop, width: frame.to - frame.from + 16, height: rows.gpu + 26 - frameTop, rx: 10, fill: 'var(--sunken)'}),
    );
    labels.push(
      svg('text', {x: frame.from, y: rows.gpu + 40 - 6, class: 'quiet over', style: 'font-size:10px'}, svg('title', {}, name), name.length > room ? `${name.slice(0, Math.max(4, room - 1))}…` : name),
    );
  }
  frames.slice(1).forEach((frame, at) => {
    const before = frames[at];
    parts.push(svg('line', {x1: before.to + 8, x2: frame.from - 8, y1: rows.pcie, y2: rows.pcie, stroke: 'var(--line-strong)', 'stroke-width': 3}));
  });
  const line = (a: Place, b: Place, resource: string, label: string): SVGElement =>
    svg('line', {x1: a.x, y1: a.y, x2: b.x, y2: b.y, ...stroke(resource)}, svg('title', {}, label));
  const hubOf = (leaf: number): number | undefined => {
    let from = -1;
    let at = leaf;
    for (let i = 0; i < 6; ++i) {
      const up: {to: number; kind: string} | undefined = (neighbours.get(at) ?? []).find(
        ({to, kind: link}) => to !== from && (link === 'pcie' || link === 'c2c') && (kind(to) === 'pcie_switch' || kind(to) === 'cpu'),
      );
      if (!up) return undefined;
      if (places.has(up.to)) return up.to;
      from = at;
      at = up.to;
    }
    return undefined;
  };
  t.devices.forEach((device, at) => {
    const place = places.get(at);
    if (!place || (device.kind !== 'gpu' && device.kind !== 'nic')) return;
    const hub = hubOf(at);
    if (hub !== undefined) parts.push(line(place, places.get(hub)!, 'pcie', `PCIe: busy ${percent(shareOf('pcie'))} of the step`));
    if (device.kind === 'nic' && t.fabric) {
      parts.push(line(place, {x: place.x, y: rows.fabric}, 'nic', `${device.name}, ${plain((device.gbps ?? 0) * 8)} Gb/s: NICs are busy ${percent(shareOf('nic'))} of the step`));
    }
    if (device.kind === 'gpu' && hasSwitch) {
      parts.push(line(place, {x: place.x, y: rows.nvswitch}, 'nvlink', `NVLink: busy ${percent(shareOf('nvlink'))} of the step`));
    }
  });
  if (arcs) {
    for (const link of t.links) {
      const a = places.get(link.a);
      const b = places.get(link.b);
      if (link.kind !== 'nvlink' || !a || !b) continue;
      const depth = rows.gpu + 24 + Math.min(70, Math.abs(a.x - b.x) * 0.16);
      parts.push(svg('path', {d: `M${a.x} ${a.y + 16} Q${(a.x + b.x) / 2} ${depth + 30} ${b.x} ${b.y + 16}`, fill: 'none', ...stroke('nvlink')}));
    }
  }
  const wide = (y: number, text: string, fill: string): SVGElement =>
    svg(
      'g',
      {},
      svg('rect', {x: 20, y: y - 15, width: width - 40, height: 30, rx: 8, fill, stroke: 'var(--line-strong)'}),
      svg('text', {x: width / 2, y: y + 4, 'text-anchor': 'middle', 'font-weight': 600}, text),
    );
  if (t.fabric) {
    const over = t.fabric.oversubscription > 1 ? `, ${digits(t.fabric.oversubscription)}:1` : '';
    parts.push(wide(rows.fabric, `${t.fabric.network}, ${t.fabric.kind.replace(/_/g, ' ')}${over}, ${t.nodes} nodes`, 'var(--accent-soft)'));
  }
  if (hasSwitch) parts.push(wide(rows.nvswitch, 'NVSwitch', 'var(--accent-soft)'));
  t.devices.forEach((device, at) => {
    const place = places.get(at);
    if (!place) return;
    if (device.kind === 'gpu') parts.push(box(place, `GPU ${device.index}`, '', device.index < t.gpus_per_node ? 'var(--surface)' : 'var(--sunken)'));
    else if (device.kind === 'nic') parts.push(box(place, `NIC ${device.index}`, `${plain((device.gbps ?? 0) * 8)} Gb/s`, 'var(--surface)'));
    else if (device.kind === 'cpu') parts.push(box(place, 'CPU', 'root ports', 'var(--surface)'));
    else if (device.kind === 'pcie_switch') parts.push(box(place, 'switch', 'PCIe', 'var(--surface)'));
  });
  const drawing = svg(
    'svg',
    {class: 'topology', viewBox: `0 ${top} ${width} ${height - top}`, role: 'img', 'aria-label': `One node: ${t.machine}`, style: `width:100%;max-width:${Math.round(width * 1.15)}px;display:block;margin:0 auto`},
    ...parts,
    ...labels,
  );
  return h('figure', {}, h('figcaption', {}, h('strong', {}, t.machine), ': a node; thick and blue where the step keeps links busy'), h('div', {}, drawing as unknown as HTMLElement));
}

export function busyTable(t: Topology): HTMLElement {
  return table(
    [
      {label: 'resource', value: (row) => resourceNames[row.resource] ?? row.resource},
      {label: 'busy', value: (row) => row.share, text: (row) => percent(row.share)},
      {label: 'share', value: (row) => row.share, bar: (row) => ({share: row.share, colour: 'var(--accent)'})},
    ],
    [...t.busy].sort((a, b) => b.share - a.share),
    {caption: 'How much of the step keeps each resource of a rank busy', showCaption: true},
  );
}
