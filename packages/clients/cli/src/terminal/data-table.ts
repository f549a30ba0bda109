import { type Column, layoutOf, rowLines, type TableOutput, titleLine } from './table.ts';

/** A longer table shows only its beginning. */
const MAX_ROWS = 20;
const FIRST_ROWS = 10;
const MAX_COLUMNS = 100;
const MAX_CELL = 200;

interface Data {
  readonly columns: readonly { readonly name: string; readonly type?: unknown }[];
  readonly rows: readonly (readonly unknown[])[];
  readonly rowCount: number;
}

type Row = readonly string[];

/**
 * Draws a DataFrame from its data. The data has no row labels, so this returns undefined if `text`, IPython's form of
 * the same DataFrame, labels the rows otherwise than 0, 1, 2. Returns undefined for malformed data, too: code can send
 * any.
 */
export function drawTable(json: string, text: string, to: TableOutput): string | undefined {
  const data = readData(json);
  if (data === undefined || data.columns.length === 0 || !hasNumberedRows(text, data.rows.length)) return undefined;
  const shown = data.rows.slice(0, data.rowCount > MAX_ROWS ? FIRST_ROWS : MAX_ROWS);
  const named = data.columns.slice(0, MAX_COLUMNS);
  const rows = shown.map((row, index): Row => [`${index}`, ...named.map(({ type }, at) => cellText(row[at], type))]);
  const titles = ['', ...named.map(({ name }) => name)];
  const columns = titles.map((title, at) => columnOf(title, at, rows, shown));
  const layout = layoutOf(rows, columns, to);
  const left = [
    more(data.rowCount - shown.length, 'row'),
    more(data.columns.length + 1 - layout.length, 'column'),
  ].filter((text) => text !== '');
  const note = left.length === 0 ? [] : [to.colors.dim(`… ${left.join(', ')}`)];
  return [titleLine(columns, layout, to), ...rowLines(rows, columns, layout, to), ...note].join('\n');
}

function more(count: number, of: string): string {
  return count === 0 ? '' : `${count.toLocaleString('en-US')} more ${of}${count === 1 ? '' : 's'}`;
}

/** Aligns numbers to the right. */
function columnOf(title: string, at: number, rows: readonly Row[], values: Data['rows']): Column<Row> {
  const cell = (row: Row) => row[at] ?? '';
  const areNumbers = at > 0 && values.every((row) => row[at - 1] === null || typeof row[at - 1] === 'number');
  if (!areNumbers) return { title, value: cell };
  const width = rows.reduce((most, row) => Math.max(most, cell(row).length), title.length);
  return { title: title.padStart(width), value: (row) => cell(row).padStart(width) };
}

function cellText(value: unknown, type: unknown): string {
  const dtype = String(type);
  if (value === null || value === undefined) {
    if (dtype.startsWith('float')) return 'NaN';
    return /^(datetime|timedelta)/.test(dtype) ? 'NaT' : 'None';
  }
  if (typeof value !== 'number' || !dtype.startsWith('float')) return String(value).slice(0, MAX_CELL);
  if (Number.isInteger(value)) return Math.abs(value) < 1e15 ? value.toFixed(1) : String(value);
  return String(Number(value.toPrecision(7)));
}

/** Whether the text of a DataFrame labels its rows with 0, 1, 2 and so on. */
function hasNumberedRows(text: string, count: number): boolean {
  const [, ...lines] = text.split('\n');
  const labels = Array.from({ length: Math.min(count, 3) }, (_, index) => /^\d+(?= |$)/.exec(lines[index] ?? '')?.[0]);
  return labels.every((label, index) => label === String(index));
}

function readData(json: string): Data | undefined {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  const { columns, rows, rowCount } = (value ?? {}) as Partial<Record<keyof Data, unknown>>;
  const isData =
    Array.isArray(columns) &&
    columns.every((each) => typeof each?.name === 'string') &&
    Array.isArray(rows) &&
    rows.every(Array.isArray) &&
    Number.isSafeInteger(rowCount) &&
    Number(rowCount) >= rows.length;
  return isData ? (value as Data) : undefined;
}
