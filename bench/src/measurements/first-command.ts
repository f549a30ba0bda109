import { setTimeout as delay } from 'node:timers/promises';
import type { Measurement, Row } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import type { Subject } from '../subject.ts';
import { inTurns, timed } from '../timing.ts';

const STAGGER_MS = 200;
const PAUSE_MS = 250;
const COMMAND = ['true'];

/** create → first command, in the three modes that ComputeSDK uses to measure services. */
export const firstCommand: Measurement = {
  name: 'first-command',
  title: 'creation to the first command',
  async measure(bench) {
    const subject = await bench.subject();
    const docker = await bench.peers.docker();
    const name = `docker run -d, docker exec (${docker?.version}, by its API)`;
    const alone = await inTurns(bench.rounds(50, 10), {
      cloche: async () => {
        const ms = await once(subject);
        await delay(PAUSE_MS);
        return ms;
      },
      docker:
        docker &&
        (async () => {
          let container = '';
          const ms = await timed(async () => {
            container = await docker.run();
            await docker.exec(container, COMMAND);
          });
          await docker.remove(container);
          return ms;
        }),
    });
    const count = bench.rounds(50, 20);
    await subject.settled();
    const staggered = await together(count, async (index) => {
      await delay(index * STAGGER_MS);
      return once(subject);
    });
    await subject.settled();
    const atOnce = await together(count, () => once(subject));
    const rows: Row[] = [
      {
        what: 'create → first command, one at a time',
        unit: 'ms',
        subject: figuresOf(alone.cloche),
        peer: beside(name, alone.docker),
        note: `\`true\`; ${PAUSE_MS} ms between two`,
      },
      {
        what: `create → first command, ${count} staggered by ${STAGGER_MS} ms`,
        unit: 'ms',
        subject: figuresOf(staggered),
        note: "ComputeSDK's published medians, over a network: Daytona 186 ms, E2B 491, Vercel 671",
      },
      {
        what: `create → first command, ${count} at once`,
        unit: 'ms',
        subject: figuresOf(atOnce),
        note: 'each from its own request to its own answer',
      },
    ];
    return { rows };
  },
};

async function once(subject: Subject): Promise<number> {
  let id = '';
  const ms = await timed(async () => {
    id = await subject.create();
    await subject.command(id, COMMAND);
  });
  await subject.kill(id);
  return ms;
}

function together(count: number, act: (index: number) => Promise<number>): Promise<number[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => act(index)));
}
