import { setTimeout as delay } from 'node:timers/promises';
import type { Measurement, Outcome, Row } from '../measurement.ts';
import type { DockerPeer } from '../peers/docker.ts';
import { beside, figuresOf } from '../statistics.ts';
import { Subject } from '../subject.ts';
import { inTurns, timed } from '../timing.ts';

/** Pause between two creations: clients that arrive one at a time, and time for the pool to be refilled. */
const PAUSE_MS = 250;
const WARM_UP = 3;
const RATIO = 20;
/** Bursts to measure. A single one lasts a tenth of a second, so other load on the machine would distort it. */
const BURSTS = 4;

/** create → ready, as a client sees it, compared with `docker run -d`. */
export const create: Measurement = {
  name: 'create',
  title: 'creation of a sandbox',
  async measure(bench) {
    const docker = await bench.peers.docker();
    const rounds = bench.rounds(100, 8);
    const measure = async (subject: Subject, pauseMs: number) => {
      const containers: string[] = [];
      const values = await inTurns(rounds, {
        cloche: () => createOnce(subject, pauseMs),
        docker:
          docker &&
          (async () => {
            const ms = await timed(async () => containers.push(await docker.run()));
            await docker.remove(containers.pop() ?? '');
            return ms;
          }),
      });
      return { values, peer: beside(nameOf(docker), values.docker) };
    };

    const subject = await bench.subject();
    await warmUp(subject);
    const warm = await measure(subject, PAUSE_MS);
    const warmRow: Row = {
      what: 'create → ready, warm pool, one at a time',
      unit: 'ms',
      subject: figuresOf(warm.values.cloche),
      targets: [{ atMost: 8 }, { of: 'p99', atMost: 40 }],
      peer: warm.peer,
      ratioAtLeast: RATIO,
      note: `${WARM_UP} creations to warm up; ${PAUSE_MS} ms between two`,
    };
    return { rows: [warmRow, await coldRow(measure)] };
  },
};

/** Measures an installation without a pool. */
async function coldRow(
  measure: (subject: Subject, pauseMs: number) => Promise<{ values: { cloche: number[] }; peer: Row['peer'] }>,
): Promise<Row> {
  const subject = await Subject.open({ CLOCHE_POOL_SIZE: '0' });
  try {
    await warmUp(subject);
    const { values, peer } = await measure(subject, 0);
    return {
      what: 'create → ready, without a pool',
      unit: 'ms',
      subject: figuresOf(values.cloche),
      targets: [{ atMost: 80 }],
      peer,
      note: 'an installation with CLOCHE_POOL_SIZE=0',
    };
  } finally {
    await subject.close();
  }
}

async function warmUp(subject: Subject): Promise<void> {
  for (let n = 0; n < WARM_UP; n++) await createOnce(subject, PAUSE_MS);
}

async function createOnce(subject: Subject, pauseMs: number): Promise<number> {
  let id = '';
  const ms = await timed(async () => {
    id = await subject.createReady();
  });
  await subject.kill(id);
  if (pauseMs > 0) await delay(pauseMs);
  return ms;
}

/** Many creations at once: each is timed from its own request until its sandbox is ready. */
export const burst: Measurement = {
  name: 'burst',
  title: 'many creations at once',
  async measure(bench): Promise<Outcome> {
    const subject = await bench.subject();
    const docker = await bench.peers.docker();
    await warmUp(subject);
    const rows: Row[] = [];
    const count = bench.rounds(50, 20);
    const cloche: number[] = [];
    const bursts = bench.rounds(BURSTS, 1);
    for (let round = 0; round < bursts; round++) {
      await subject.settled();
      cloche.push(
        ...(await atOnce(
          count,
          () => subject.createReady(),
          (id) => subject.kill(id),
        )),
      );
    }
    const containers = docker
      ? await atOnce(
          count,
          () => docker.run(),
          (name) => docker.remove(name),
        )
      : [];
    rows.push({
      what: `${count} creations at once → ready`,
      unit: 'ms',
      subject: figuresOf(cloche),
      targets: [{ of: 'p95', atMost: 250 }],
      peer: beside(nameOf(docker), containers),
      note: `${bursts} times, each when the pool is full; CubeSandbox publishes p95 90 ms on its own hardware`,
    });
    return { rows };
  },
};

function nameOf(docker: DockerPeer | undefined): string {
  return `docker run -d (${docker?.version}, by its API)`;
}

async function atOnce(
  count: number,
  make: () => Promise<string>,
  remove: (made: string) => Promise<unknown>,
): Promise<number[]> {
  const made: string[] = [];
  const all = await Promise.all(Array.from({ length: count }, () => timed(async () => void made.push(await make()))));
  for (const one of made) await remove(one);
  return all;
}
