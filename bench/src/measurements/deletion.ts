import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { runPlaces } from '@cloche/protocol';
import type { Measurement, Row } from '../measurement.ts';
import { figuresOf } from '../statistics.ts';
import type { Subject } from '../subject.ts';
import { inTurns, timed } from '../timing.ts';

/** delete → answered, and → gone: no socket, no cgroup, no disk of it on the host. */
export const deletion: Measurement = {
  name: 'delete',
  title: 'deletion of a sandbox',
  async measure(bench) {
    const subject = await bench.subject();
    const docker = await bench.peers.docker();
    const answered: number[] = [];
    const values = await inTurns(bench.rounds(60, 12), {
      cloche: async () => {
        const id = await subject.createReady();
        await subject.run(id, '1+1');
        const traces = tracesOf(subject, id);
        return timed(async () => {
          answered.push(await timed(() => subject.kill(id)));
          while (traces.some((trace) => existsSync(trace))) await setImmediate();
        });
      },
      docker: async () => {
        const name = await docker.run();
        return timed(() => docker.remove(name));
      },
    });
    const peer = { name: `docker rm -f (${docker.version}, by its API)`, figures: figuresOf(values.docker) };
    const rows: Row[] = [
      { what: 'delete → answered', unit: 'ms', subject: figuresOf(answered), targets: [{ atMost: 10 }], peer },
      { what: 'delete → gone', unit: 'ms', subject: figuresOf(values.cloche), targets: [{ atMost: 60 }], peer },
    ];
    return { rows };
  },
};

/** What of it lies on this host, where the host is ours to look at. */
function tracesOf({ installation }: Subject, id: string): string[] {
  if (!installation) return [];
  const { instancesDir } = runPlaces(installation.runDir);
  const groups = globSync(`/sys/fs/cgroup/{,*/}cloche-${installation.installationId}/*${id}*`);
  return [
    ...globSync(join(instancesDir, `*${id}*`)),
    ...globSync(join(installation.dataDir, `hostd/*/*${id}*`)),
    ...groups,
  ];
}
