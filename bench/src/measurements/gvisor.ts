import { setTimeout as delay } from 'node:timers/promises';
import type { Bench, Measurement, Row } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import { Subject } from '../subject.ts';
import { inTurns, repeat, timed } from '../timing.ts';

const WARM_UP = 2;
/** Time after which the sandbox has loaded its own zygote and forked a kernel ahead of demand. */
const LOADED_MS = 5000;
const TABLE = 'import pandas; pandas.DataFrame({"a": [1, 2, 3]})';

/** Time to start a gVisor container, and the time that Cloche adds. Neither is prepared in advance. */
export const gvisor: Measurement = {
  name: 'gvisor',
  title: 'gVisor',
  fullOnly: true,
  async measure(bench) {
    const docker = await bench.peers.docker();
    const subject = await Subject.open({ CLOCHE_POOL_SIZE: '0', CLOCHE_OCI_RUNTIME: 'runsc' });
    const createOnce = async () => {
      let id = '';
      const ms = await timed(async () => {
        id = await subject.createReady();
      });
      await subject.kill(id);
      return ms;
    };
    try {
      for (let count = 0; count < WARM_UP; count++) await createOnce();
      const values = await inTurns(bench.rounds(30, 5), {
        cloche: createOnce,
        docker: docker?.hasGvisor
          ? async () => {
              let container = '';
              const ms = await timed(async () => {
                container = await docker.run(['sleep', 'infinity'], 'runsc');
              });
              await docker.remove(container);
              return ms;
            }
          : undefined,
      });
      return {
        rows: [
          {
            what: 'create → ready, without a pool, in gVisor',
            unit: 'ms',
            subject: figuresOf(values.cloche),
            peer: beside(`docker run -d --runtime=runsc (${docker?.version}, by its API)`, values.docker),
            note: 'an agent answers when a sandbox is ready; a container of the peer is when `sleep` was started',
          },
          ...(await contextsIn(subject, bench)),
        ],
      };
    } finally {
      await subject.close();
    }
  },
};

/** Measures sandboxes that had time to load their zygote, and one that had not. */
async function contextsIn(subject: Subject, bench: Bench): Promise<Row[]> {
  const rounds = bench.rounds(10, 3);
  const row = (what: string, values: number[], note: string): Row => {
    return { what: `${what}, in gVisor`, unit: 'ms', subject: figuresOf(values), note };
  };
  const first = async (code: string, waitMs: number) => {
    const id = await subject.createReady();
    await delay(waitMs);
    const ms = await timed(async () => void (await subject.run(id, code)));
    await subject.kill(id);
    return ms;
  };
  const id = await subject.createReady();
  await subject.run(id, '1+1');
  await delay(LOADED_MS);
  const next = () =>
    timed(async () => {
      const contextId = await subject.createContext(id, 'python');
      await subject.run(id, '1+1', { contextId });
      await subject.http.call('DELETE', `/v1/sandboxes/${id}/code/contexts/${contextId}`);
    });
  const further = await repeat(rounds, next);
  await subject.kill(id);
  const loaded = `the sandbox is ${LOADED_MS / 1000} s old`;
  return [
    row('first 1+1 of a sandbox at once', await repeat(rounds, () => first('1+1', 0)), 'a kernel is started for it'),
    row('first 1+1 of a sandbox', await repeat(rounds, () => first('1+1', LOADED_MS)), loaded),
    row('first table of pandas of a sandbox', await repeat(rounds, () => first(TABLE, LOADED_MS)), loaded),
    row('new context → 1+1 → deleted', further, 'one right after another'),
  ];
}
