// Tables that sort by a click on a column's head and copy as text that a spreadsheet takes.
import {copy, h} from './dom';
import {grouped} from './format';

export type Cell = string | number | boolean | null | undefined;

export interface Column<Row> {
  label: string;
  value: (row: Row) => Cell; // what is sorted and copied
  text?: (row: Row) => string; // what is shown; the value where left out
  bar?: (row: Row) => {share: number; colour?: string}; // 0 to 1: a bar in place of text
  title?: string; // a word of explanation on the head
}

export interface TableOptions<Row> {
  caption: string;
  showCaption?: boolean;
  rowClass?: (row: Row) => string;
  most?: number; // rows shown at first
  sort?: {column: number; descending: boolean};
  tools?: boolean;
}

const collator = new Intl.Collator('en', {numeric: true});
const compare = (a: Cell, b: Cell): number => {
  const missing = (x: Cell): boolean => x === null || x === undefined || x === '' || Number.isNaN(x);
  if (missing(a) || missing(b)) return missing(a) && missing(b) ? 0 : missing(a) ? 2 : -2; // always last
  if (typeof a === 'number' && typeof b === 'number') return Math.sign(a - b);
  return Math.sign(collator.compare(String(a), String(b)));
};

export function table<Row>(columns: Column<Row>[], rows: Row[], options: TableOptions<Row>): HTMLElement {
  let sort = options.sort;
  let all = false;
  const most = options.most ?? 200;
  const body = h('tbody');
  const heads: HTMLTableCellElement[] = [];
  const numeric = columns.map((column) => rows.some((row) => typeof column.value(row) === 'number'));

  const sorted = (): Row[] => {
    if (!sort) return rows;
    const {column, descending} = sort;
    const value = columns[column].value;
    return rows
      .map((row, at) => ({row, at}))
      .sort((a, b) => {
        const order = compare(value(a.row), value(b.row));
        if (Math.abs(order) === 2) return order;
        return (descending ? -order : order) || a.at - b.at;
      })
      .map(({row}) => row);
  };

  const fill = (): void => {
    const list = sorted();
    body.replaceChildren(
      ...(all ? list : list.slice(0, most)).map((row) =>
        h(
          'tr',
          {class: options.rowClass?.(row) || null},
          ...columns.map((column, at) => {
            const bar = column.bar?.(row);
            if (bar) {
              const width = Math.max(0, Math.min(1, bar.share)) * 100;
              const style = `width:${width}%;${bar.colour ? `background:${bar.colour}` : ''}`;
              return h('td', {class: 'bar-cell', 'aria-hidden': 'true'}, h('span', {style}));
            }
            const value = column.value(row);
            const text = column.text ? column.text(row) : value === null || value === undefined ? '–' : String(value);
            return h('td', {class: numeric[at] ? 'number' : null, title: text.length > 34 ? text : null}, text);
          }),
        ),
      ),
    );
    heads.forEach((head, at) => {
      if (sort?.column === at) head.setAttribute('aria-sort', sort.descending ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    more.hidden = all || list.length <= most;
  };

  const more = h(
    'button',
    {
      class: 'button',
      type: 'button',
      onclick: () => {
        all = true;
        fill();
      },
    },
    `Show all ${grouped(rows.length)} rows`,
  );

  columns.forEach((column, at) => {
    const head = h('th', {scope: 'col', class: numeric[at] ? 'number' : null, title: column.title});
    if (column.bar) head.append(h('span', {class: 'visually-hidden'}, column.label));
    else {
      head.append(
        h(
          'button',
          {
            type: 'button',
            onclick: () => {
              const again = sort?.column === at;
              sort = {column: at, descending: again ? !sort!.descending : numeric[at]};
              fill();
            },
          },
          column.label,
        ),
      );
    }
    heads.push(head);
  });

  const asText = (): string => {
    const shown = columns.filter((column) => !column.bar);
    const lines = [shown.map((column) => column.label)];
    for (const row of sorted()) {
      lines.push(shown.map((column) => String(column.value(row) ?? '').replace(/[\t\n]/g, ' ')));
    }
    return lines.map((line) => line.join('\t')).join('\n');
  };
  const copyButton = h(
    'button',
    {
      class: 'button',
      type: 'button',
      'aria-label': `Copy table: ${options.caption}`,
      onclick: async () => {
        const done = await copy(asText());
        copyButton.textContent = done ? 'Copied' : 'Not copied';
        setTimeout(() => (copyButton.textContent = 'Copy table'), 1600);
      },
    },
    'Copy table',
  );
  fill();
  return h(
    'div',
    {class: 'table'},
    h(
      'div',
      {class: 'table-wrap', tabindex: columns.length > 5 ? 0 : null, role: 'group', 'aria-label': options.caption},
      h(
        'table',
        {class: columns.length > 9 ? 'wide' : null},
        h('caption', {class: options.showCaption ? null : 'visually-hidden'}, options.caption),
        h('thead', {}, h('tr', {}, ...heads)),
        body,
      ),
    ),
    options.tools === false ? null : h('div', {class: 'table-tools'}, more, copyButton),
  );
}

// A chart's numbers, for those who cannot or would rather not look at it.
export const alternative = (summary: string, content: HTMLElement): HTMLElement =>
  h('details', {class: 'alternative'}, h('summary', {}, summary), content);
