import type { Row, Target, Unit } from '../measurement.ts';
import type { Figures } from '../statistics.ts';

/** Of these, more is better. */
const RISING: readonly Unit[] = ['/s', 'MB/s', 'sandboxes'];

/** What the slower ones came to: of rates the least, of times the 99th percentile. */
export function slowEnd(figures: Figures, unit: Unit): number {
  return RISING.includes(unit) ? figures.min : figures.p99;
}

export function slowEndName(unit: Unit): string {
  return RISING.includes(unit) ? 'least' : 'p99';
}

/** How many times as good as the peer, by their medians. */
export function timesAsGood({ unit, subject, peer }: Row): number | undefined {
  if (!peer) return undefined;
  return RISING.includes(unit) ? subject.p50 / peer.figures.p50 : peer.figures.p50 / subject.p50;
}

/** Whether each of a row's aims was met; undefined where it has none. */
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

/** With as many digits as mean something. */
export function figure(value: number, unit: Unit): string {
  if (!Number.isFinite(value)) return '–';
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  const text = value.toFixed(Number.isInteger(value) ? 0 : digits);
  return unit === '×' ? text : `${text} ${unit}`;
}
