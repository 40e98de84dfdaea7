// What the page is given: the document in its <script type="application/json">, and what
// `stepcast serve` answers with. docs/page.md describes them; the program's own JSON schemas
// (stepcast.forecast/1, ...) are passed on as they are.

export interface Wrapped {
  kind: string;
  version?: string;
  document?: any; // or, of a large one, `deflated`: zlib's format in base64
}

export interface Timeline {
  period_us: number;
  legend: {key: string; label: string}[];
  rows: string[];
  texts: string[];
  spans: {
    row: number[];
    start_us: number[];
    length_us: number[];
    busy_us: number[];
    solo_us: number[];
    shade: number[];
    count: number[];
    name: number[];
    bound: number[];
    cause: number[];
    provenance: number[];
    detail: number[];
    rule: number[];
    bytes: number[];
  };
}

export interface Curve {
  t_us: number[];
  bytes: number[];
}

export interface Memory {
  capacity_bytes: number;
  role: string;
  period_us: number;
  allocated: Curve;
  reserved: Curve | null;
}

export interface Topology {
  machine: string;
  nodes: number;
  gpus_per_node: number;
  devices: {kind: string; name: string; index: number; product?: string; gbps?: number}[];
  links: {a: number; b: number; kind: string; gbps: number; count: number}[];
  fabric: {kind: string; network: string; oversubscription: number; leaf_ports: number} | null;
  busy: {resource: string; seconds: number; share: number}[];
}

export interface ScalingPoint {
  nodes: number;
  gpus: number;
  step_time_s: number;
  low_s: number;
  high_s: number;
  throughput: number;
  exposed_s: number;
  fits: boolean;
}

export interface Scaling {
  unit: string; // "tokens/s", "images/s"
  here: number; // nodes of the scenario
  engine: string;
  points: ScalingPoint[];
  left_out: string[]; // sizes that the scenario does not allow, each with the reason
}

export interface Interval {
  low_s: number;
  high_s: number;
  profile: number;
  kernels: number;
  network: number;
  scale: number;
  memory: number; // of high_s alone
  borrowed: boolean; // the profile was not fitted; its deviation is how fitted ones differ
}

export interface StepDocument {
  forecast: any; // stepcast.forecast/1
  interval: Interval;
  timeline: Timeline | null;
  memory: Memory | null;
  topology: Topology;
  scaling: Scaling | null;
  scenario_toml: string | null;
}

export async function read(): Promise<Wrapped> {
  const page = JSON.parse(document.getElementById('document')?.textContent || '{"kind":"none"}');
  if (typeof page.deflated !== 'string') return page;
  const bytes = Uint8Array.from(atob(page.deflated), (character) => character.charCodeAt(0));
  const text = new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate')));
  return {...page, deflated: undefined, document: await text.json()};
}
