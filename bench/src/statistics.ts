/** Statistics of a series of measured values. */
export interface Figures {
  readonly count: number;
  readonly min: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
}

export function figuresOf(values: readonly number[]): Figures {
  const sorted = values.toSorted((a, b) => a - b);
  return {
    count: sorted.length,
    min: quantile(sorted, 0),
    p50: quantile(sorted, 0.5),
    p95: quantile(sorted, 0.95),
    p99: quantile(sorted, 0.99),
    max: quantile(sorted, 1),
  };
}

/** Returns the peer of a row; undefined where it has no values. */
export function beside(name: string, values: readonly number[]): { name: string; figures: Figures } | undefined {
  return values.length === 0 ? undefined : { name, figures: figuresOf(values) };
}

/** Returns the smallest value that at least `share` of all values do not exceed. */
export function quantile(sorted: readonly number[], share: number): number {
  const index = Math.max(0, Math.ceil(share * sorted.length) - 1);
  return sorted[index] ?? Number.NaN;
}
