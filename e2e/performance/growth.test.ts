/** What cycles of create, run and delete leave behind: by process, and of this installation alone. */
import assert from 'node:assert/strict';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, before, it } from 'node:test';
import { type HostdHealth, runPlaces } from '@cloche/protocol';
import { HttpClient } from '../../bench/src/http-client.ts';
import { figuresOf } from '../../bench/src/statistics.ts';
import { repeat, timed } from '../../bench/src/timing.ts';
import { eventually } from '../support/eventually.ts';
import { type TestService, testService } from '../support/service.ts';

const PARTS = ['server', 'hostd', 'egress'] as const;
const WARM_UP = 60;
const CYCLES = 100;
/** What heaps may swing by while nothing leaks; a thousandth of a leak of one megabyte a cycle. */
const MEMORY_SWING_MIB = 32;

let service: TestService;
let hostd: HttpClient;
before(async () => {
  service = await testService();
  hostd = new HttpClient({ socketPath: runPlaces(service.runDir).hostdSocket });
});
after(async () => {
  hostd?.close();
  await service?.close();
});

it('a hundred cycles leave every process and the host as they were, and the last is as fast as the first', async () => {
  await repeat(WARM_UP, cycle);
  const before = await settledCounts();
  const times = await repeat(CYCLES, cycle);
  const after = await settledCounts();
  const grown = Object.entries(after).filter(([what, count]) => {
    const allowed = what.endsWith('MiB') ? MEMORY_SWING_MIB : what.endsWith('descriptors') ? 4 : 0;
    return count > (before[what] ?? 0) + allowed;
  });
  assert.deepEqual(grown, [], JSON.stringify({ before, after }));
  const [first, last] = [figuresOf(times.slice(0, 40)).p50, figuresOf(times.slice(-40)).p50];
  assert.ok(last <= 2 * first, `${first} → ${last} ms`);
});

function cycle(): Promise<number> {
  return timed(async () => {
    const { sandbox } = (await service.api.post('/v1/sandboxes', {})).body;
    await service.api.run(sandbox.id, '1+1');
    await service.api.delete(`/v1/sandboxes/${sandbox.id}`);
  });
}

/** When the pool is full and what was deleted is gone: the same from one look to the next, a moment apart. */
async function settledCounts(): Promise<Record<string, number>> {
  let last = '';
  let same = 0;
  await eventually(async () => {
    const { pool }: HostdHealth = (await hostd.call('GET', '/health')).body;
    const now = JSON.stringify(hostCounts());
    same = now === last && pool.ready >= pool.size ? same + 1 : 0;
    last = now;
    return same >= 5;
  });
  return { ...hostCounts(), ...processCounts() };
}

function hostCounts(): Record<string, number> {
  const id = basename(service.runDir);
  const pid = service.pid('hostd');
  const groups = globSync(`/sys/fs/cgroup/{,*/}cloche-${id}/**/`);
  const pids = new Set(groups.flatMap((group) => lines(join(group, 'cgroup.procs'))));
  return {
    'control groups': groups.length,
    'processes of sandboxes': pids.size,
    'children of hostd': lines(`/proc/${pid}/task/${pid}/children`).join(' ').split(' ').filter(Boolean).length,
    mounts: lines(`/proc/${pid}/mountinfo`).length,
    links: readdirSync('/sys/class/net').filter((name) => name.slice(2).startsWith(id)).length,
    disks: globSync('/sys/block/loop*/loop/backing_file').filter((file) => lines(file)[0]?.includes(service.dataDir))
      .length,
    slots: globSync('/run/cloche/slots/*').filter((file) => lines(file)[0]?.includes(id)).length,
  };
}

function processCounts(): Record<string, number> {
  return Object.fromEntries(
    PARTS.flatMap((part) => {
      const folder = `/proc/${service.pid(part)}`;
      const rollup = lines(`${folder}/smaps_rollup`).join('\n');
      const kilobytes = (name: string) => Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(rollup)?.[1] ?? 0);
      return [
        [`${part}: MiB`, Math.round((kilobytes('Private_Dirty') + kilobytes('Private_Clean')) / 1024)],
        [`${part}: descriptors`, readdirSync(`${folder}/fd`).length],
      ];
    }),
  );
}

function lines(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean);
  } catch {
    // It was gone between two looks.
    return [];
  }
}
