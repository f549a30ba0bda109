import type { Measurement } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import { Subject } from '../subject.ts';
import { inTurns, timed } from '../timing.ts';

const WARM_UP = 2;

/** What a container of gVisor's takes, and what Cloche adds to it: nothing of either is made ahead. */
export const gvisor: Measurement = {
  name: 'gvisor',
  title: 'gVisor',
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
        ],
      };
    } finally {
      await subject.close();
    }
  },
};
