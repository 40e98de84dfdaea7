// Numbers for people, as the program's text prints them: thousands in groups, a unit always.

const dash = '–';
const known = (x: unknown): x is number => typeof x === 'number' && Number.isFinite(x);

// Made once: a formatter costs more than a thousand numbers.
const formatters = new Map<string, Intl.NumberFormat>();
function formatted(value: number, least: number, most: number): string {
  const key = `${least},${most}`;
  let formatter = formatters.get(key);
  if (!formatter) {
    formatter = new Intl.NumberFormat('en-US', {minimumFractionDigits: least, maximumFractionDigits: most});
    formatters.set(key, formatter);
  }
  return formatter.format(value);
}

export function grouped(value: unknown, decimals = 0): string {
  if (!known(value)) return dash;
  const text = formatted(value, decimals, decimals);
  return /^-[0.]+$/.test(text) ? text.slice(1) : text; // no -0.00
}

// Three or four digits, whatever the size.
export function digits(value: unknown, most = 4): string {
  if (!known(value)) return dash;
  if (value === 0) return '0';
  const size = Math.floor(Math.log10(Math.abs(value)));
  return grouped(value, Math.max(0, Math.min(6, most - 1 - size)));
}

// The same without zeros at the end: sizes of links, ticks of axes.
export const plain = (value: unknown, most = 3): string =>
  known(value) ? formatted(Number(value.toPrecision(most)), 0, 6) : dash;

export interface Quantity {
  value: string;
  unit: string;
}

export function secondsParts(s: unknown): Quantity {
  if (!known(s)) return {value: dash, unit: ''};
  const size = Math.abs(s);
  if (size >= 1 || s === 0) return {value: digits(s), unit: 's'};
  if (size >= 1e-3) return {value: digits(s * 1e3), unit: 'ms'};
  return {value: digits(s * 1e6, 3), unit: 'µs'};
}
export function seconds(s: unknown): string {
  const {value, unit} = secondsParts(s);
  return unit ? `${value} ${unit}` : value;
}
// "0.98 to 1.61 s", or "994 ms to 1.61 s" where the units differ.
export function secondsRange(low: number, high: number): string {
  const from = secondsParts(low);
  return `${from.value}${from.unit === secondsParts(high).unit ? '' : ` ${from.unit}`} to ${seconds(high)}`;
}
// Ticks of an axis that ends at `most`: all in one unit.
export function secondsTick(most: number): (value: number) => string {
  const [scale, unit] = most >= 2 ? [1, 's'] : most >= 2e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
  return (value) => `${plain(value * scale, 4)} ${unit}`;
}
export const milliseconds = (s: unknown): string => (known(s) ? grouped(s * 1e3, 2) : dash);

export function bytes(b: unknown): string {
  if (!known(b)) return dash;
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let at = 0;
  let value = b;
  while (Math.abs(value) >= 999.5 && at < units.length - 1) {
    value /= 1000;
    ++at;
  }
  return `${at === 0 ? grouped(value) : digits(value, 3)} ${units[at]}`;
}
export const gib = (b: unknown): string => (known(b) ? `${grouped(b / 2 ** 30, 2)} GiB` : dash);
export const percent = (fraction: unknown, decimals = 1): string =>
  known(fraction) ? `${grouped(fraction * 100, decimals)} %` : dash;
export function signedPercent(fraction: unknown, decimals = 1): string {
  if (!known(fraction)) return dash;
  const text = grouped(Math.abs(fraction * 100), decimals);
  return `${Number(text.replace(/,/g, '')) === 0 ? '' : fraction < 0 ? '−' : '+'}${text} %`;
}
export function count(n: unknown): string {
  if (!known(n)) return dash;
  if (n >= 1e12) return `${plain(n / 1e12)} T`;
  if (n >= 1e9) return `${digits(n / 1e9)} B`;
  if (n >= 1e6) return `${digits(n / 1e6)} M`;
  return grouped(n);
}
// "first_all_gather" -> "first all-gather", as the program prints causes.
export const words = (key: string): string => key.replace(/_/g, ' ');

// What a unit of a sweep's output is shown as.
export function withUnit(value: unknown, unit: string): string {
  if (!known(value)) return value === null || value === undefined ? dash : String(value);
  if (unit === 's') return seconds(value);
  if (unit === 'B') return gib(value);
  if (unit === 'fraction') return percent(value);
  return Math.abs(value) >= 1000 ? grouped(value) : plain(value, 4);
}
// The same on an axis, where there is little room.
export function tick(value: number, unit: string): string {
  if (unit === 's' || unit === 'fraction') return unit === 's' ? secondsTick(Math.abs(value) * 2)(value) : `${plain(value * 100)} %`;
  if (unit === 'B') return `${plain(value / 2 ** 30)} GiB`;
  return Math.abs(value) >= 1e6 ? `${plain(value / 1e6)} M` : Math.abs(value) >= 1e4 ? `${plain(value / 1e3)} k` : plain(value, 4);
}
