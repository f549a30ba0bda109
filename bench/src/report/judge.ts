import type { Row, Target, Unit } from '../measurement.ts';
import type { Figures } from '../statistics.ts';

/** Units in which a higher value is better. */
const RISING: readonly Unit[] = ['/s', 'MB/s', 'sandboxes'];

/** Returns the value of the slow end: the minimum of rates, the 99th percentile of times. */
export function slowEnd(figures: Figures, unit: Unit): number {
  return RISING.includes(unit) ? figures.min : figures.p99;
}

export function slowEndName(unit: Unit): string {
  return RISING.includes(unit) ? 'least' : 'p99';
}

/** Returns how many times as good as the peer Cloche is, by their medians. */
export function timesAsGood({ unit, subject, peer }: Row): number | undefined {
  if (!peer) return undefined;
  return RISING.includes(unit) ? subject.p50 / peer.figures.p50 : peer.figures.p50 / subject.p50;
}

/** Returns whether all targets of a row were met; undefined if the row has none. */
export function isMet(row: Row): boolean | undefined {
  const { targets = [], ratioAtLeast, ratioAtMost, subject } = row;
  const ratio = timesAsGood(row);
  const aims = [
    ...targets.map(({ of = 'p50', atMost = Infinity, atLeast = -Infinity }) => {
      const value = subject[of];
      return value <= atMost && value >= atLeast;
    }),
    ...(ratioAtLeast !== undefined && ratio !== undefined ? [ratio >= ratioAtLeast] : []),
    ...(ratioAtMost !== undefined && ratio !== undefined ? [1 / ratio <= ratioAtMost] : []),
  ];
  return aims.length === 0 ? undefined : aims.every(Boolean);
}

export function describeAims({ targets = [], ratioAtLeast, ratioAtMost, unit }: Row): string {
  return [
    ...targets.map((target) => describeTarget(target, unit)),
    ...(ratioAtLeast === undefined ? [] : [`${ratioAtLeast} times as fast`]),
    ...(ratioAtMost === undefined ? [] : [`at most ${ratioAtMost} times its peer's`]),
  ].join(', ');
}

function describeTarget({ of = 'p50', atMost, atLeast }: Target, unit: Unit): string {
  return atMost === undefined ? `${of} ≥ ${figure(atLeast ?? 0, unit)}` : `${of} ≤ ${figure(atMost, unit)}`;
}

/** Formats a value with its significant digits. */
export function figure(value: number, unit: Unit): string {
  if (!Number.isFinite(value)) return '–';
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  const text = value.toFixed(Number.isInteger(value) ? 0 : digits);
  return unit === '×' ? text : `${text} ${unit}`;
}
