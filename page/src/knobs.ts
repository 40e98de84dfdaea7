// The knobs of `stepcast serve`: keys of a scenario, by what they belong to, and when they apply.

export interface Options {
  models: {name: string; images: boolean}[];
  machines: {name: string; full_name: string; gpus: number; nics: number}[];
  precisions: Record<string, string[]>; // by strategy, the default first
  profiles: string[];
  defaults: Record<string, string>;
  limits: Record<string, [number, number]>; // of numbers
}

export type Values = Record<string, string>;

export interface Knob {
  key: string;
  label: string;
  group: string;
  kind: 'choice' | 'number' | 'slider';
  choices?: (o: Options, v: Values) => [string, string][]; // value and text; '' leaves the key out
  when?: (o: Options, v: Values) => boolean;
  whole?: boolean; // over both columns
  placeholder?: string;
  low?: number; // of a slider, which runs in logarithms
  high?: number;
  start?: number; // where the slider stands while nothing is said
}

const one = (list: string[]): [string, string][] => list.map((each) => [each, each]);
const orDefault = (list: string[], text = 'default'): [string, string][] => [['', text], ...one(list)];
const images = (o: Options, v: Values): boolean => o.models.find((m) => m.name === v.model)?.images ?? false;
const severalNodes = (o: Options, v: Values): boolean =>
  (o.machines.find((m) => m.name === v.cluster)?.nics ?? 0) > 0 && Number(v.nodes || 1) > 1;
const strategyIs =
  (...names: string[]) =>
  (_: Options, v: Values): boolean =>
    names.includes(v.strategy);

const trained = 'What is trained';
const machine = 'What it runs on';
const parallel = 'How it is parallel';
const forecast = 'How it is forecast';
export const groups = [trained, machine, parallel, forecast];

export const strategies: [string, string][] = [
  ['dp', 'DataParallel'],
  ['ddp', 'DDP'],
  ['zero1', 'ZeRO-1'],
  ['zero2', 'ZeRO-2'],
  ['zero3', 'ZeRO-3'],
  ['fsdp1', 'FSDP1'],
  ['fsdp2', 'FSDP2'],
  ['hsdp', 'HSDP'],
];

export const knobs: Knob[] = [
  {key: 'model', label: 'model', group: trained, kind: 'choice', whole: true, choices: (o) => one(o.models.map((m) => m.name))},
  {key: 'seq_len', label: 'tokens a sequence', group: trained, kind: 'number', placeholder: 'the model’s', when: (o, v) => !images(o, v)},
  {key: 'image_size', label: 'pixels a side', group: trained, kind: 'number', placeholder: 'the model’s', when: images},
  {key: 'micro_batch', label: 'micro-batch', group: trained, kind: 'number', placeholder: '1'},
  {key: 'accumulation', label: 'accumulation', group: trained, kind: 'number', placeholder: '1'},
  {key: 'checkpointing', label: 'checkpointing', group: trained, kind: 'choice', choices: () => orDefault(['none', 'selective', 'full'], 'none (default)').filter(([value]) => value !== 'none')},
  {key: 'precision', label: 'precision', group: trained, kind: 'choice', whole: true, choices: (o, v) => orDefault(o.precisions[v.strategy] ?? [])},

  {key: 'cluster', label: 'machine', group: machine, kind: 'choice', whole: true, choices: (o) => o.machines.map((m) => [m.name, m.name])},
  {key: 'nodes', label: 'nodes', group: machine, kind: 'slider', whole: true, low: 1, high: 512, start: 1, when: (o, v) => (o.machines.find((m) => m.name === v.cluster)?.nics ?? 0) > 0},
  {key: 'gpus_per_node', label: 'GPUs a node', group: machine, kind: 'choice', choices: (o, v) => {
    const most = o.machines.find((m) => m.name === v.cluster)?.gpus ?? 1;
    return [['', `all ${most}`], ...[1, 2, 4, 8, 16].filter((n) => n < most).map((n): [string, string] => [String(n), String(n)])];
  }},
  {key: 'network', label: 'network', group: machine, kind: 'choice', when: severalNodes, choices: () => orDefault(['infiniband', 'roce', 'efa', 'ethernet', 'slingshot'], 'the machine’s')},
  {key: 'fabric', label: 'fabric', group: machine, kind: 'choice', when: severalNodes, choices: () => orDefault(['single_switch', 'leaf_spine', 'rail_optimised', 'rail_only', 'fat_tree', 'dragonfly'], 'default')},
  {key: 'nic_gbps', label: 'a NIC, GB/s', group: machine, kind: 'number', placeholder: 'the machine’s', when: severalNodes},
  {key: 'oversubscription', label: 'oversubscription', group: machine, kind: 'number', placeholder: '1', when: severalNodes},

  {key: 'strategy', label: 'strategy', group: parallel, kind: 'choice', whole: true, choices: () => strategies},
  {key: 'bucket_cap_mb', label: 'bucket size, MiB', group: parallel, kind: 'slider', whole: true, low: 0.25, high: 1024, start: 25, when: strategyIs('ddp')},
  {key: 'comm_hook', label: 'hook', group: parallel, kind: 'choice', when: strategyIs('ddp'), choices: () => orDefault(['fp16_compress', 'bf16_compress', 'powerSGD'], 'none')},
  {key: 'gradient_as_bucket_view', label: 'bucket views', group: parallel, kind: 'choice', when: strategyIs('ddp'), choices: () => [['', 'no (default)'], ['true', 'yes']]},
  {key: 'reduce_bucket_size', label: 'reduce bucket, elements', group: parallel, kind: 'slider', whole: true, low: 1e6, high: 2e9, start: 5e8, when: strategyIs('zero1', 'zero2', 'zero3')},
  {key: 'overlap_comm', label: 'overlap_comm', group: parallel, kind: 'choice', when: strategyIs('zero1', 'zero2', 'zero3'), choices: () => [['', 'default'], ['true', 'yes'], ['false', 'no']]},
  {key: 'sharding_strategy', label: 'sharding', group: parallel, kind: 'choice', whole: true, when: strategyIs('fsdp1'), choices: () => orDefault(['FULL_SHARD', 'SHARD_GRAD_OP', 'NO_SHARD', 'HYBRID_SHARD'], 'FULL_SHARD (default)').filter(([value]) => value !== 'FULL_SHARD')},
  {key: 'limit_all_gathers', label: 'limiter', group: parallel, kind: 'choice', when: strategyIs('fsdp1'), choices: () => [['', 'on (default)'], ['false', 'off']]},
  {key: 'backward_prefetch', label: 'prefetch', group: parallel, kind: 'choice', when: strategyIs('fsdp1'), choices: () => [['', 'BACKWARD_PRE'], ['BACKWARD_POST', 'BACKWARD_POST'], ['NONE', 'none']]},
  {key: 'shard_group', label: 'GPUs a shard group', group: parallel, kind: 'number', placeholder: 'a node', when: strategyIs('hsdp')},
  {key: 'reshard_after_forward', label: 'reshard after forward', group: parallel, kind: 'choice', when: strategyIs('fsdp2', 'hsdp'), choices: () => [['', 'yes (default)'], ['false', 'no']]},

  {key: 'profile', label: 'software', group: forecast, kind: 'choice', whole: true, choices: (o) => orDefault(o.profiles.filter((p) => p !== 'pytorch-eager'), 'pytorch-eager (default)')},
  {key: 'engine', label: 'engine', group: forecast, kind: 'choice', whole: true, choices: () => [['', 'fluid: with contention'], ['formula', 'formula: without, faster']]},
];

// What of the values applies: the query of a request, and the shared address.
export function query(o: Options, v: Values): URLSearchParams {
  const out = new URLSearchParams();
  for (const knob of knobs) {
    const value = (v[knob.key] ?? '').trim();
    if (value !== '' && (!knob.when || knob.when(o, v))) out.set(knob.key, value);
  }
  return out;
}
