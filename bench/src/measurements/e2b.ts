import { Cloche } from '@cloche/sdk';
import { Sandbox as E2bSandbox } from '@e2b/code-interpreter';
import type { Bench, Measurement, Row } from '../measurement.ts';
import { startPythonClient } from '../peers/python-clients.ts';
import { beside, figuresOf } from '../statistics.ts';
import type { Subject } from '../subject.ts';
import { inTurns, timed } from '../timing.ts';

const WARM_UP = 5;
/** Milliseconds that E2B's protocol may add. */
const CREATION_ADDS = 3;
const RUN_ADDS = 1;
/** Lifetime of the sandbox in which E2B's client runs code. Its default may be shorter than the measurement. */
const KEPT_MS = 600_000;

/** Milliseconds that a creation takes, and a run of `1+1`, by a client. */
interface TimedClient {
  create(): Promise<number>;
  run(): Promise<number>;
}

/** Compares E2B's own clients for JavaScript and Python with the SDKs, all against this service. */
export const e2b: Measurement = {
  name: 'e2b',
  title: 'E2B’s clients',
  async measure(bench) {
    const subject = await bench.subject();
    return { rows: [...(await javaScript(subject, bench)), ...(await python(subject, bench))] };
  },
};

async function javaScript({ url, apiKey }: Subject, bench: Bench): Promise<Row[]> {
  const options = { apiKey, apiUrl: `${url}/e2b`, sandboxUrl: `${url}/e2b-box`, validateApiKey: false };
  const cloche = new Cloche({ url, apiKey });
  const own = await cloche.sandboxes.create();
  const theirs = await E2bSandbox.create({ ...options, timeoutMs: KEPT_MS });
  const e2bClient = {
    create: () =>
      timedThen(
        () => E2bSandbox.create(options),
        (sandbox) => sandbox.kill(),
      ),
    run: () => timed(() => theirs.runCode('1+1')),
  };
  const sdk = {
    create: () =>
      timedThen(
        () => cloche.sandboxes.create(),
        (sandbox) => sandbox.kill(),
      ),
    run: () => timed(() => own.run('1+1')),
  };
  const rows = await compared('JavaScript', { e2b: e2bClient, sdk }, bench, 'both from one process');
  await Promise.all([own.kill(), theirs.kill()]);
  return rows;
}

async function python(subject: Subject, bench: Bench): Promise<Row[]> {
  await using theirs = startPythonClient('e2b', subject);
  await using own = startPythonClient('sdk', subject);
  const [e2bClient, sdk] = [theirs, own].map((client) => ({
    create: () => client.time({ act: 'create' }),
    run: () => client.time({ act: 'run' }),
  })) as [TimedClient, TimedClient];
  const rows = await compared('Python', { e2b: e2bClient, sdk }, bench, 'each from a process of its own');
  await Promise.all([own.time({ act: 'end' }), theirs.time({ act: 'end' })]);
  return rows;
}

async function compared(
  language: string,
  { e2b: theirs, sdk }: { readonly e2b: TimedClient; readonly sdk: TimedClient },
  bench: Bench,
  where: string,
): Promise<Row[]> {
  const creations = { e2b: () => theirs.create(), sdk: () => sdk.create() };
  await inTurns(WARM_UP, creations);
  const created = await inTurns(bench.rounds(60, 15), creations);
  const runs = { e2b: () => theirs.run(), sdk: () => sdk.run() };
  await inTurns(WARM_UP * 10, runs);
  const ran = await inTurns(bench.rounds(500, 100), runs);
  const by = `by E2B’s ${language} client`;
  const note = `${where}, in turns; the SDK reads one answer where E2B’s client reads a stream`;
  return [
    ...rowsOf(`creation ${by}`, created, CREATION_ADDS, `${where}, in turns`),
    ...rowsOf(`hot run of \`1+1\` ${by}`, ran, RUN_ADDS, note),
  ];
}

function rowsOf(what: string, took: Record<'e2b' | 'sdk', number[]>, addsAtMost: number, note: string): Row[] {
  const added = took.e2b.map((ms, round) => ms - (took.sdk[round] ?? Number.NaN));
  const unit = 'ms';
  return [
    { what, unit, subject: figuresOf(took.e2b), peer: beside('the SDK', took.sdk), note },
    { what: `${what}: more than by the SDK`, unit, subject: figuresOf(added), targets: [{ atMost: addsAtMost }], note },
  ];
}

/** Times `create`, and then ends what it made. */
async function timedThen<T>(create: () => Promise<T>, end: (made: T) => Promise<unknown>): Promise<number> {
  let made: T | undefined;
  const took = await timed(async () => {
    made = await create();
  });
  if (made !== undefined) await end(made);
  return took;
}
