import { parsePlainJson } from '@cloche/node-support';

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
}

/** E2B's name of each kind of a series. */
const TYPES: Readonly<Record<string, string>> = {
  line: 'line',
  scatter: 'scatter',
  bar: 'bar',
  pie: 'pie',
  box: 'box_and_whisker',
};
/** A unit in parentheses or brackets. */
const UNIT = /\s\((.*?)\)|\[(.*?)\]/;

/** Returns a figure as E2B's clients read it; undefined if it is none. */
export function chartOf(text: string): object | undefined {
  const figure = parsed(text) as { title?: unknown; axes?: unknown } | undefined;
  const axes = objectsOf<Axes>(figure?.axes);
  const [only] = axes;
  if (!only) return undefined;
  if (axes.length === 1) return chartOfAxes(only);
  return { type: 'superchart', title: figure?.title ?? null, elements: axes.map(chartOfAxes) };
}

/** Returns the table as E2B's clients read it: for each column its name and the list of its values. */
export function dataOf(text: string): object | undefined {
  const table = parsed(text) as { columns?: unknown; rows?: unknown } | undefined;
  const rows = listOf<unknown[]>(table?.rows).map((row) => listOf(row));
  const columns = objectsOf<{ name?: unknown }>(table?.columns);
  return Object.fromEntries(columns.map(({ name }, at) => [String(name), rows.map((row) => row[at] ?? null)]));
}

function chartOfAxes(axes: Axes): object {
  const series = objectsOf<Series>(axes.series);
  const kinds = new Set(series.map(({ type }) => String(type)));
  const [kind = ''] = kinds.size === 1 ? kinds : [];
  const title = { type: TYPES[kind] ?? 'unknown', title: axes.title ?? null };
  if (!(kind in TYPES)) return { ...title, elements: [] };
  if (kind === 'pie') return { ...title, elements: series.flatMap(slicesOf) };
  const isSideways = series.some(({ horizontal }) => horizontal === true);
  const labels = isSideways ? labelsOf(axes.yLabel, axes.xLabel) : labelsOf(axes.xLabel, axes.yLabel);
  if (kind === 'bar') return { ...title, ...labels, elements: series.flatMap(barsOf) };
  if (kind === 'box') return { ...title, ...labels, elements: series.map(boxOf) };
  const axis = (name: 'x' | 'y') => ({
    [`${name}_ticks`]: axes[name]?.ticks ?? [],
    [`${name}_tick_labels`]: axes[name]?.labels ?? [],
    [`${name}_scale`]: axes[name]?.scale ?? 'linear',
  });
  const elements = series.map(({ label, x, y }, at) => ({
    label: label ?? (kind === 'line' ? `Line ${at}` : ''),
    points: pairsOf(x, y),
  }));
  return { ...title, ...labels, ...axis('x'), ...axis('y'), elements };
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

function barsOf({ label, x, y }: Series, at: number): object[] {
  return pairsOf(x, y).map(([name, value]) => ({ label: String(name), group: label ?? `Group ${at}`, value }));
}

function slicesOf({ x, y, radii }: Series): object[] {
  const sizes = listOf(radii);
  const angle = (share: unknown) => Math.round(Number(share) * 360 * 1e6) / 1e6;
  return pairsOf(x, y).map(([label, share], at) => ({ label, angle: angle(share), radius: sizes[at] ?? 1 }));
}

function boxOf({ label, y, outliers }: Series): object {
  const [min, first_quartile, median, third_quartile, max] = listOf(y);
  return { label: label ?? '', min, first_quartile, median, third_quartile, max, outliers: listOf(outliers) };
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
