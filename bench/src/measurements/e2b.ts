import { Cloche } from '@cloche/sdk';
import { Sandbox as E2bSandbox } from '@e2b/code-interpreter';
import type { Measurement } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import { inTurns, timed } from '../timing.ts';

const WARM_UP = 5;

/** Compares E2B's own JavaScript client with the SDK, both against this service. */
export const e2b: Measurement = {
  name: 'e2b',
  title: 'E2B’s client',
  async measure(bench) {
    const { url, apiKey } = await bench.subject();
    const options = { apiKey, apiUrl: `${url}/e2b`, sandboxUrl: `${url}/e2b-box`, validateApiKey: false };
    const cloche = new Cloche({ url, apiKey });
    const creations = {
      e2b: () =>
        timedThen(
          () => E2bSandbox.create(options),
          (sandbox) => sandbox.kill(),
        ),
      sdk: () =>
        timedThen(
          () => cloche.sandboxes.create(),
          (sandbox) => sandbox.kill(),
        ),
    };
    await inTurns(WARM_UP, creations);
    const created = await inTurns(bench.rounds(60, 15), creations);

    const own = await cloche.sandboxes.create();
    const theirs = await E2bSandbox.create(options);
    const runs = {
      e2b: () => timed(() => theirs.runCode('1+1')),
      sdk: () => timed(() => own.run('1+1')),
    };
    await inTurns(WARM_UP * 10, runs);
    const ran = await inTurns(bench.rounds(500, 100), runs);
    await Promise.all([own.kill(), theirs.kill()]);
    const note = 'both from one process, in turns; the SDK reads one answer where E2B’s client reads a stream';
    return {
      rows: [
        {
          what: 'creation by E2B’s JavaScript client',
          unit: 'ms',
          subject: figuresOf(created.e2b),
          peer: beside('the SDK', created.sdk),
          note,
        },
        {
          what: 'hot run of `1+1` by E2B’s JavaScript client',
          unit: 'ms',
          subject: figuresOf(ran.e2b),
          peer: beside('the SDK', ran.sdk),
          note,
        },
      ],
    };
  },
};

/** Times `create`, and then ends what it made. */
async function timedThen<T>(create: () => Promise<T>, end: (made: T) => Promise<unknown>): Promise<number> {
  let made: T | undefined;
  const took = await timed(async () => {
    made = await create();
  });
  if (made !== undefined) await end(made);
  return took;
}
