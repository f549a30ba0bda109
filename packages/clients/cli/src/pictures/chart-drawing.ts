/** Draws the data of a chart with characters: lines and points as Braille dots, bars as blocks. */
import { printable } from '../terminal/printable.ts';
import { cutTo, padTo, widthOf } from '../terminal/width.ts';

/** Rows of a drawing of lines or points. */
const ROWS = 12;
const MAX_COLUMNS = 100;
/** Bars of a drawing; more are counted. */
const MAX_BARS = 24;
/** Series of a drawing, all in one plane. */
const MAX_SERIES = 8;
const LABEL_COLUMNS = 24;
/** Dots of a Braille character, by column and row. */
const DOTS = [
  [0x01, 0x02, 0x04, 0x40],
  [0x08, 0x10, 0x20, 0x80],
] as const;
const BRAILLE = 0x2800;

interface Series {
  readonly type?: unknown;
  readonly label?: unknown;
  readonly x?: unknown;
  readonly y?: unknown;
  readonly horizontal?: unknown;
}
interface Axes {
  readonly title?: unknown;
  readonly xLabel?: unknown;
  readonly yLabel?: unknown;
  readonly series?: unknown;
}
type Point = readonly [x: number, y: number];

/**
 * Returns lines of at most `columns` columns that show the chart, the JSON of a `chart` output; undefined if it has
 * nothing that can be drawn. The sandbox wrote it, so that everything about it is checked.
 */
export function drawChart(json: string, columns: number): string[] | undefined {
  const width = Math.min(columns, MAX_COLUMNS);
  const chart = parsed(json);
  const all = objectsOf<Axes>(chart?.axes);
  const drawings = all.flatMap((axes) => {
    const lines = drawAxes(axes, width);
    return lines.length === 0 ? [] : [[...titleLines(axes.title, width), ...lines, ...labelLines(axes, width)]];
  });
  if (drawings.length === 0 || width < 20) return undefined;
  return [...titleLines(chart?.title, width), ...drawings.flat()];
}

function drawAxes({ series }: Axes, width: number): string[] {
  const known = objectsOf<Series>(series).slice(0, MAX_SERIES);
  const lines = known.filter(({ type }) => type === 'line' || type === 'scatter');
  const bars = known.filter(({ type }) => type === 'bar' || type === 'pie');
  return [...drawPlane(lines, width), ...bars.flatMap((one) => drawBars(one, width))];
}

function drawPlane(series: readonly Series[], width: number): string[] {
  const drawn = series.map((one) => ({ isLine: one.type === 'line', points: pointsOf(one) }));
  const points = drawn.flatMap((one) => one.points);
  if (points.length === 0) return [];
  const [left, right] = rangeOf(points.map(([x]) => x));
  const [bottom, top] = rangeOf(points.map(([, y]) => y));
  const marks = [figure(top), figure(bottom)];
  const margin = Math.max(...marks.map(widthOf));
  const columns = Math.max(1, width - margin - 2);
  const cells = Array.from({ length: ROWS }, () => new Uint8Array(columns));
  const across = (x: number) => Math.round(((x - left) / (right - left)) * (columns * 2 - 1));
  const down = (y: number) => Math.round(((top - y) / (top - bottom)) * (ROWS * 4 - 1));
  for (const { isLine, points: own } of drawn) {
    let before: Point | undefined;
    for (const [x, y] of own) {
      const at: Point = [across(x), down(y)];
      for (const [column, row] of isLine && before ? between(before, at) : [at]) setDot(cells, column, row);
      before = at;
    }
  }
  const lines = cells.map((row, index) => {
    const mark = index === 0 ? marks[0] : index === ROWS - 1 ? marks[1] : '';
    return `${' '.repeat(margin - widthOf(mark ?? ''))}${mark} │${brailleOf(row)}`;
  });
  const [from, to] = [figure(left), figure(right)];
  const gap = Math.max(1, columns - from.length - to.length);
  return [...lines, cutTo(`${' '.repeat(margin + 2)}${from}${' '.repeat(gap)}${to}`, width)];
}

function brailleOf(row: Uint8Array): string {
  return Array.from(row, (dots) => String.fromCharCode(BRAILLE + dots))
    .join('')
    .replaceAll('\u2800', ' ')
    .trimEnd();
}

function setDot(cells: readonly Uint8Array[], column: number, row: number): void {
  const cell = cells[row >> 2];
  const dot = DOTS[column % 2 === 0 ? 0 : 1][row % 4];
  if (cell && dot !== undefined) cell[column >> 1] = (cell[column >> 1] ?? 0) | dot;
}

/** Returns the dots of a straight line. */
function between([x0, y0]: Point, [x1, y1]: Point): Point[] {
  const steps = Math.max(Math.abs(x1 - x0), Math.abs(y1 - y0), 1);
  return Array.from({ length: steps + 1 }, (_, step) => [
    Math.round(x0 + ((x1 - x0) * step) / steps),
    Math.round(y0 + ((y1 - y0) * step) / steps),
  ]);
}

function drawBars(series: Series, width: number): string[] {
  const [names, values] = series.horizontal === true ? [series.y, series.x] : [series.x, series.y];
  const lengths = Array.isArray(values) ? values : [];
  const bars = lengths.flatMap((value, index) => {
    const name = Array.isArray(names) ? names[index] : undefined;
    return isNumber(value) ? [{ name: textOf(name), value }] : [];
  });
  if (bars.length === 0) return [];
  const shown = bars.slice(0, MAX_BARS);
  const margin = Math.min(LABEL_COLUMNS, Math.max(...shown.map(({ name }) => widthOf(name))));
  const most = Math.max(...shown.map(({ value }) => Math.abs(value)), Number.MIN_VALUE);
  const room = width - margin - 2 - Math.max(...shown.map(({ value }) => figure(value).length)) - 1;
  const lines = shown.map(({ name, value }) => {
    const length = Math.round((Math.abs(value) / most) * Math.max(room, 1));
    return `${padTo(cutTo(name, margin), margin)} │${'█'.repeat(length)} ${figure(value)}`;
  });
  return bars.length > MAX_BARS ? [...lines, `… ${bars.length - MAX_BARS} more`] : lines;
}

function titleLines(title: unknown, width: number): string[] {
  return typeof title === 'string' && title !== '' ? [cutTo(textOf(title), width)] : [];
}

function labelLines({ xLabel, yLabel, series }: Axes, width: number): string[] {
  const labels = objectsOf<Series>(series).map(({ label }) => textOf(label));
  const parts = [
    ...(textOf(xLabel) === '' ? [] : [`x: ${textOf(xLabel)}`]),
    ...(textOf(yLabel) === '' ? [] : [`y: ${textOf(yLabel)}`]),
    ...labels.filter((label) => label !== ''),
  ];
  return parts.length === 0 ? [] : [cutTo(parts.join(' · '), width)];
}

function pointsOf({ x, y }: Series): Point[] {
  if (!Array.isArray(x) || !Array.isArray(y)) return [];
  // Dates and names have no number: their order is their place.
  const isNumeric = x.every((value) => isNumber(value) || value === null);
  return y.flatMap((value, index): Point[] => {
    const place = isNumeric ? x[index] : index;
    return isNumber(value) && isNumber(place) ? [[place, value]] : [];
  });
}

function rangeOf(values: readonly number[]): [least: number, most: number] {
  const least = values.reduce((one, other) => Math.min(one, other), Number.POSITIVE_INFINITY);
  const most = values.reduce((one, other) => Math.max(one, other), Number.NEGATIVE_INFINITY);
  if (least === most) return [least - 1, most + 1];
  // A range beyond the largest number cannot be divided.
  return Number.isFinite(most - least) ? [least, most] : [least / 4, most / 4];
}

function figure(value: number): string {
  return String(Number(value.toPrecision(4)));
}

function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? printable(String(value)) : '';
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

function objectsOf<T>(value: unknown): T[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'object' && each !== null) : [];
}

function parsed(json: string): { readonly title?: unknown; readonly axes?: unknown } | undefined {
  try {
    const chart: unknown = JSON.parse(json);
    return typeof chart === 'object' && chart !== null ? chart : undefined;
  } catch {
    return undefined;
  }
}
