/** Time after the last request until server, hostd and egress have returned the memory that requests took. */
export const TIDIED_MS = 35_000;

/** Returns the milliseconds that `act` takes. */
export async function timed(act: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await act();
  return performance.now() - started;
}

export async function repeat(times: number, act: (index: number) => Promise<number>): Promise<number[]> {
  const all: number[] = [];
  for (let index = 0; index < times; index++) all.push(await act(index));
  return all;
}

/**
 * Measures subject and peer in turns, so that other load on the machine affects both. Each act resolves with its own
 * measured value. A peer that could not be started is undefined and has no values.
 */
export async function inTurns<Name extends string, Value = number>(
  rounds: number,
  acts: Readonly<Record<Name, ((round: number) => Promise<Value>) | undefined>>,
): Promise<Record<Name, Value[]>> {
  const names = Object.keys(acts) as Name[];
  const values = Object.fromEntries(names.map((name) => [name, [] as Value[]])) as Record<Name, Value[]>;
  for (let round = 0; round < rounds; round++) {
    // The order is reversed in each round, so that no one is always first.
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const act = acts[name];
      if (act) values[name].push(await act(round));
    }
  }
  return values;
}

/** Returns how often a second `clients` clients together complete `act`. Each repeats it, one call after the other. */
export async function perSecond(
  clients: number,
  lastMs: number,
  act: (client: number) => Promise<unknown>,
): Promise<number> {
  const started = performance.now();
  let done = 0;
  await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      while (performance.now() - started < lastMs) {
        await act(client);
        done += 1;
      }
    }),
  );
  return (done * 1000) / (performance.now() - started);
}
