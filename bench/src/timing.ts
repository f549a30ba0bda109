/** So long after the last request server, hostd and egress have given back what requests took. */
export const TIDIED_MS = 35_000;

/** Milliseconds that `act` takes. */
export async function timed(act: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await act();
  return performance.now() - started;
}

type Act = (round: number) => Promise<number>;

export async function repeat(times: number, act: (index: number) => Promise<number>): Promise<number[]> {
  const all: number[] = [];
  for (let index = 0; index < times; index++) all.push(await act(index));
  return all;
}

/**
 * Measures subject and peer in turns, so that whatever else the machine does meets both. Each is an act that resolves to
 * its own measured value; of a peer that could not be started there is none.
 */
export async function inTurns<Name extends string>(
  rounds: number,
  acts: Readonly<Record<Name, Act | undefined>>,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(acts) as Name[];
  const values = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>;
  for (let round = 0; round < rounds; round++) {
    // The first of one round is the last of the next.
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const act = acts[name];
      if (act) values[name].push(await act(round));
    }
  }
  return values;
}

/** How often a second `clients` at once, each by turns with itself, get `act` done. */
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
