import { parsePlainJson } from '@cloche/node-support';

declare global {
  /** Field of the result that the types of E2B's package do not have yet. */
  interface JSON {
    rawJSON(text: string): object;
  }
}

/** Most values of one chart or table. */
const MOST_VALUES = 1_000_000;

/** A figure as the kernel describes it. The sandbox has made it, so any part may be missing or of another type. */
interface Axis {
  readonly scale?: unknown;
  readonly ticks?: unknown;
  readonly labels?: unknown;
}
interface Series {
  readonly type?: unknown;
  readonly label?: unknown;
  readonly x?: unknown;
  readonly y?: unknown;
  readonly radii?: unknown;
  readonly outliers?: unknown;
  readonly horizontal?: unknown;
}
interface Axes {
  readonly title?: unknown;
  readonly xLabel?: unknown;
  readonly yLabel?: unknown;
  readonly x?: Axis;
  readonly y?: Axis;
  readonly series?: unknown;
  readonly others?: unknown;
}

/** E2B's name of each kind of a series. */
const TYPES: Readonly<Record<string, string>> = {
  line: 'line',
  scatter: 'scatter',
  bar: 'bar',
  pie: 'pie',
  box: 'box_and_whisker',
};
/** A time of numpy with its nanoseconds, which E2B leaves out. */
const NANOSECONDS = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{9}$/;
/** A unit in parentheses or brackets. */
const UNIT = /\s\((.*?)\)|\[(.*?)\]/;

/** Returns a figure as E2B's clients read it; undefined if it is none. */
export function chartOf(text: string): object | undefined {
  const figure = parsed(text) as { title?: unknown; axes?: unknown } | undefined;
  const axes = objectsOf<Axes>(figure?.axes);
  const [only] = axes;
  if (!only) return undefined;
  if (axes.length === 1) return chartOfAxes(only);
  return { type: 'superchart', title: figure?.title ?? '', elements: axes.map(chartOfAxes) };
}

/** Returns the table as E2B's clients read it: for each column its name and the list of its values. */
export function dataOf(text: string): object | undefined {
  const table = parsed(text) as { columns?: unknown; rows?: unknown } | undefined;
  const rows = listOf<unknown[]>(table?.rows).map((row) => listOf(row));
  const columns = objectsOf<{ name?: unknown }>(table?.columns);
  return Object.fromEntries(columns.map(({ name }, at) => [String(name), rows.map((row) => row[at] ?? null)]));
}

function chartOfAxes(axes: Axes): object {
  const all = objectsOf<Series>(axes.series);
  const series = all.filter((each) => !isGridLine(each));
  const kind = kindOf(series, listOf(axes.others));
  const title = { type: TYPES[kind] ?? 'unknown', title: axes.title ?? null };
  if (!(kind in TYPES)) return { ...title, elements: [] };
  if (kind === 'pie') return { ...title, elements: series.flatMap(slicesOf) };
  const isSideways = series.some(({ horizontal }) => horizontal === true);
  const labels = isSideways ? labelsOf(axes.yLabel, axes.xLabel) : labelsOf(axes.xLabel, axes.yLabel);
  if (kind === 'bar') {
    const names = namesOf(isSideways ? axes.y : axes.x);
    return { ...title, ...labels, elements: series.flatMap((each, at) => barsOf(each, at, names)) };
  }
  if (kind === 'box') return { ...title, ...labels, elements: series.map(boxOf) };
  const axis = (name: 'x' | 'y') => ({
    [`${name}_ticks`]: listOf(axes[name]?.ticks).map(float),
    [`${name}_tick_labels`]: axes[name]?.labels ?? [],
    [`${name}_scale`]: axes[name]?.scale ?? 'linear',
  });
  const elements = series.map((each) => ({
    label: each.label ?? (kind === 'line' ? `Line ${all.indexOf(each)}` : `_child${series.indexOf(each)}`),
    points: pairsOf(each.x, each.y).map((pair) => pair.map(pointOf)),
  }));
  return { ...title, ...labels, ...axis('x'), ...axis('y'), elements };
}

/** Returns the type of chart of the axes; `line` for empty axes, as E2B does. */
function kindOf(series: readonly Series[], others: readonly unknown[]): string {
  if (others.length > 0) return '';
  const [kind = 'line', ...more] = new Set(series.map(({ type }) => String(type)));
  return more.length > 0 ? '' : kind;
}

/** Returns whether E2B's extractor treats a line as a grid line. */
function isGridLine({ type, x, y }: Series): boolean {
  const isConstant = ([first, last]: unknown[]) => first === last && first !== null;
  const ends = [listOf(x), listOf(y)];
  return type === 'line' && ends.every(({ length }) => length === 2) && ends.some(isConstant);
}

/** Returns the tick labels of a categorical axis; nothing for a numeric axis. */
function namesOf(axis: Axis | undefined): unknown[] {
  const labels = listOf(axis?.labels);
  return labels.every((label) => Number.isFinite(Number(String(label).replace('\u2212', '-')))) ? [] : labels;
}

function labelsOf(x: unknown, y: unknown): object {
  return { x_label: x ?? null, y_label: y ?? null, x_unit: unitOf(x), y_unit: unitOf(y) };
}

function unitOf(label: unknown): string | null {
  const [, round, square] = UNIT.exec(typeof label === 'string' ? label : '') ?? [];
  return round ?? square ?? null;
}

function pairsOf(x: unknown, y: unknown): [unknown, unknown][] {
  const others = listOf(y);
  return listOf(x).map((value, at) => [value, others[at] ?? null]);
}

/** Returns bars. In a grouped bar chart, the label of a bar is that of the nearest tick. */
function barsOf({ label, x, y }: Series, at: number, names: readonly unknown[]): object[] {
  const pairs = pairsOf(x, y);
  const nameOf = (name: unknown, index: number) =>
    String(typeof name === 'number' && names.length === pairs.length ? names[index] : name);
  const group = label ?? `Group ${at}`;
  return pairs.map(([name, value], index) => ({ label: nameOf(name, index), group, value: float(value) }));
}

function slicesOf({ x, y, radii }: Series): object[] {
  const sizes = listOf(radii);
  const angle = (share: unknown) => float(Math.round(Number(share) * 360 * 1e6) / 1e6);
  return pairsOf(x, y).map(([label, share], at) => ({ label, angle: angle(share), radius: float(sizes[at] ?? 1) }));
}

function boxOf({ label, y, outliers }: Series): object {
  const [min, first_quartile, median, third_quartile, max] = listOf(y).map(float);
  return {
    label: label ?? '',
    min,
    first_quartile,
    median,
    third_quartile,
    max,
    outliers: listOf(outliers).map(float),
  };
}

function pointOf(value: unknown): unknown {
  return typeof value === 'string' ? value.replace(NANOSECONDS, '$1') : float(value);
}

/** Writes a number as Python's JSON does: Python clients read a number without a fraction as an integer. */
function float(value: unknown): unknown {
  return Number.isInteger(value) && !String(value).includes('e') ? JSON.rawJSON(`${value}.0`) : value;
}

/** Returns the objects of a list. */
function objectsOf<Item>(value: unknown): Item[] {
  return listOf<Item>(value).filter((each) => typeof each === 'object' && each !== null);
}

function listOf<Item>(value: unknown): Item[] {
  return Array.isArray(value) ? value : [];
}

function parsed(text: string): unknown {
  try {
    return parsePlainJson(text, MOST_VALUES);
  } catch {
    return undefined;
  }
}
