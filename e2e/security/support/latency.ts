import type { TestService } from '../../support/service.ts';

const HOT_RUN = '1 + 1';

/** Returns the median latency of a sandbox's hot runs, in milliseconds. */
export async function medianLatencyMs(
  service: Pick<TestService, 'api'>,
  sandboxId: string,
  samples = 15,
): Promise<number> {
  const times: number[] = [];
  for (let sample = 0; sample < samples; sample += 1) times.push(await hotRunMs(service, sandboxId));
  return median(times);
}

/** Fewest runs that a median is taken of. A single one can meet anything else on the machine. */
const MIN_SAMPLES = 5;

/**
 * Returns the median latency of hot runs while `meanwhile` is pending, in milliseconds. If it is over too soon, a few
 * runs after it count as well.
 */
export async function medianLatencyDuringMs(
  service: Pick<TestService, 'api'>,
  sandboxId: string,
  meanwhile: Promise<unknown>,
): Promise<number> {
  const times: number[] = [];
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  meanwhile.then(over, over);
  while (!isOver || times.length < MIN_SAMPLES) times.push(await hotRunMs(service, sandboxId));
  return median(times);
}

async function hotRunMs(service: Pick<TestService, 'api'>, sandboxId: string): Promise<number> {
  const startedAt = performance.now();
  await service.api.run(sandboxId, HOT_RUN);
  return performance.now() - startedAt;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}
