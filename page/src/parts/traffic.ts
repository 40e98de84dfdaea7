// What is sent: collectives by size, and the machine with how busy its links are.
import type {Topology} from '../document';
import {h} from '../dom';
import {bytes, grouped, words} from '../format';
import {card} from '../shell';
import {table} from '../table';
import {busyTable, topologyDrawing} from './topology';

export function trafficCard(forecast: any, topology: Topology): HTMLElement {
  const rows = forecast.collectives as any[];
  const list = rows.length
    ? table<any>(
        [
          {label: 'collective', value: (r) => words(r.kind)},
          {label: 'ranks', value: (r) => r.ranks},
          {label: 'calls', value: (r) => r.calls},
          {label: 'size', value: (r) => r.bytes, text: (r) => bytes(r.bytes)},
          {label: 'in the node', value: (r) => r.sent_intra_bytes, text: (r) => bytes(r.sent_intra_bytes), title: 'bytes a GPU sends within the node in one step'},
          {label: 'between nodes', value: (r) => r.sent_inter_bytes, text: (r) => bytes(r.sent_inter_bytes), title: 'bytes a GPU sends between nodes in one step'},
          {label: 'as NCCL runs it', value: (r) => (r.channels ? `${r.algorithm}/${r.protocol} ${r.channels}ch` : 'peer copies')},
          {label: 'a call, ms', value: (r) => r.mean_s * 1e3, text: (r) => grouped(r.mean_s * 1e3, 3)},
          {label: 'busbw, GB/s', value: (r) => r.busbw_gbps, text: (r) => grouped(r.busbw_gbps, 1)},
          {label: 'provenance', value: (r) => r.provenance},
        ],
        rows,
        {caption: 'Collectives of one step', most: 30},
      )
    : h('p', {class: 'subtitle'}, 'Nothing is sent: one GPU.');
  return card(
    'What travels over which link',
    'Bytes a GPU sends in one step, padding included; busbw as nccl-tests defines it.',
    h('div', {class: 'columns wide-left', style: 'margin-bottom:18px'}, topologyDrawing(topology), busyTable(topology)),
    list,
  );
}
