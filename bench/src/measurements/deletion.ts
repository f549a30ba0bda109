import { runPaths } from '@cloche/layout';
import { HttpClient } from '../http-client.ts';
import type { Measurement, Row } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import { inTurns, timed } from '../timing.ts';

/** delete → answered, and delete → gone: hostd reports that nothing of the sandbox is left on the host. */
export const deletion: Measurement = {
  name: 'delete',
  title: 'deletion of a sandbox',
  async measure(bench) {
    const subject = await bench.subject();
    const docker = await bench.peers.docker();
    const { service } = subject;
    const hostd = service && new HttpClient({ socketPath: runPaths(service.runDir).hostdSocket });
    const answered: number[] = [];
    const values = await inTurns(bench.rounds(60, 12), {
      cloche: async () => {
        const id = await subject.createReady();
        await subject.run(id, '1+1');
        return timed(async () => {
          answered.push(await timed(() => subject.kill(id)));
          await hostd?.call('DELETE', `/instances/${id}/1?until=gone`);
        });
      },
      docker:
        docker &&
        (async () => {
          const name = await docker.run();
          return timed(() => docker.remove(name));
        }),
    });
    hostd?.close();
    const peer = beside(`docker rm -f (${docker?.version}, by its API)`, values.docker);
    const rows: Row[] = [
      { what: 'delete → answered', unit: 'ms', subject: figuresOf(answered), targets: [{ atMost: 10 }], peer },
    ];
    if (hostd) {
      rows.push({
        what: 'delete → gone',
        unit: 'ms',
        subject: figuresOf(values.cloche),
        targets: [{ atMost: 60 }],
        peer,
        note: 'gone: no process, mount, disk, link or group of it is left, as hostd says',
      });
    }
    return { rows };
  },
};
