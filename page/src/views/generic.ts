// A document of a kind that has no drawing of its own: every value, in tables where there are rows.
import {h} from '../dom';
import {digits, words} from '../format';
import {card, headline} from '../shell';
import {table} from '../table';

const simple = (value: unknown): boolean => value === null || typeof value !== 'object';
const show = (value: unknown): string =>
  value === null || value === undefined ? '–' : typeof value === 'number' && !Number.isInteger(value) ? digits(value, 5) : String(value);

function rowsTable(rows: any[], caption: string): HTMLElement {
  const keys = [...new Set(rows.flatMap((row) => Object.keys(row).filter((key) => simple(row[key]))))];
  return table<any>(
    keys.map((key) => ({label: words(key), value: (row) => row[key], text: (row) => show(row[key])})),
    rows,
    {caption},
  );
}

function part(name: string, value: any, depth: number): HTMLElement | null {
  if (Array.isArray(value)) {
    if (!value.length) return null;
    const content = value.every(simple) ? h('ul', {class: 'notes'}, ...value.map((item) => h('li', {}, show(item)))) : rowsTable(value, words(name));
    return depth === 0 ? card(words(name), '', content) : h('div', {}, h('h3', {}, words(name)), content);
  }
  const facts = h('dl', {class: 'facts'});
  const deeper: (HTMLElement | null)[] = [];
  for (const [key, item] of Object.entries(value)) {
    if (simple(item)) facts.append(h('dt', {}, words(key)), h('dd', {}, show(item)));
    else deeper.push(part(key, item, depth + 1));
  }
  const content = [facts.childElementCount ? facts : null, ...deeper].filter((each): each is HTMLElement => each !== null);
  return depth === 0 ? card(words(name), '', ...content) : h('div', {style: 'margin-top:10px'}, h('h3', {}, words(name)), ...content);
}

export function genericView(kind: string, document: any): HTMLElement[] {
  const facts: Record<string, unknown> = {};
  const cards: HTMLElement[] = [];
  for (const [key, value] of Object.entries(document)) {
    if (simple(value)) facts[key] = value;
    else {
      const made = part(key, value, 0);
      if (made) cards.push(made);
    }
  }
  const first = Object.keys(facts).length ? [part(kind, facts, 0)!] : [];
  return [headline(words(kind), kind === 'none' ? 'There is nothing in this page.' : ''), ...first, ...cards];
}
