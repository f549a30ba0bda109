/**
 * Measures what cycles of create, run and delete leave behind, in each process and on the host. Counts this
 * installation only.
 */
import assert from 'node:assert/strict';
import { globSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, before, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { runPaths } from '@cloche/layout';
import type { HostdHealth } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { HttpClient } from '../../bench/src/http-client.ts';
import { figuresOf } from '../../bench/src/statistics.ts';
import { repeat, timed } from '../../bench/src/timing.ts';
import { ALL_PROTOCOLS, type TestService, testService } from '../support/service.ts';

const PARTS = ['server', 'hostd', 'egress'] as const;
/**
 * Cycles before the first count: enough writes to start the database's thread, which has descriptors and memory of its
 * own.
 */
const WARM_UP = 200;
const CYCLES = 100;
/**
 * Idle time before memory is returned: longer than from the start of egress to its first measurement, even on a busy
 * machine.
 */
const IDLE_MS = 5000;
/** Time without requests after which memory has been returned. */
const TIDIED_MS = IDLE_MS + 2000;
/** Normal variation of heaps without a leak. A leak of one megabyte a cycle would add 100. */
const MEMORY_SWING_MIB = 32;
/** Normal variation of the server's heap after it returned memory: code that V8 compiled in the meantime. */
const HEAP_SWING_MIB = 4;

let service: TestService;
let hostd: HttpClient;
let started: Record<string, number>;
before(async () => {
  service = await testService({ ...ALL_PROTOCOLS, CLOCHE_IDLE_TIDYING_MS: `${IDLE_MS}` });
  started = processCounts();
  hostd = new HttpClient({ socketPath: runPaths(service.runDir).hostdSocket });
});
after(async () => {
  hostd?.close();
  await service?.close();
});

it('a hundred cycles leave every process and the host as they were, and the last is as fast as the first', async () => {
  // No sandbox is gated here, so egress has only its start to tidy up after. V8 would do this by itself a minute later.
  const idleEgress = delay(TIDIED_MS).then(() => processCounts()['egress: MiB'] ?? 0);
  await repeat(WARM_UP, cycle);
  const before = await settledCounts();
  const times = await repeat(CYCLES, cycle);
  const after = await settledCounts();
  const grown = Object.entries(after).filter(([what, count]) => {
    return count > (before[what] ?? 0) + swingOf(what);
  });
  assert.deepEqual(grown, [], JSON.stringify({ before, after }));
  const [held = 0, used = 0] = [after['server: heap held, MiB'], after['server: heap, MiB']];
  assert.ok(held <= 1.25 * used, `${held} MiB for ${used}`);
  const [idle, atStart = 0] = [await idleEgress, started['egress: MiB']];
  assert.ok(idle <= 0.9 * atStart, `${idle} MiB, ${atStart} at its start`);
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

/**
 * Returns the counts once they stay the same over several looks: the pool is full and the deleted sandboxes are
 * removed.
 */
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
  // A request to the server would keep it from returning memory.
  await delay(TIDIED_MS);
  return { ...hostCounts(), ...processCounts(), ...(await serverHeap()) };
}

function swingOf(what: string): number {
  if (what.startsWith('server: heap')) return HEAP_SWING_MIB;
  return what.endsWith('MiB') ? MEMORY_SWING_MIB : what.endsWith('descriptors') ? 4 : 0;
}

async function serverHeap(): Promise<Record<string, number>> {
  const { body } = await service.api.get('/metrics');
  const mebibytes = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(body)?.[1]) / 2 ** 20;
  return {
    'server: heap, MiB': mebibytes('nodejs_heap_size_used_bytes'),
    'server: heap held, MiB': mebibytes('nodejs_heap_size_total_bytes'),
  };
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
    // hostd may be measuring the host's firewalls by links of its own.
    links: readdirSync('/sys/class/net').filter((name) => name.slice(2).startsWith(id) && !isOfProbe(name, id)).length,
    disks: globSync('/sys/block/loop*/loop/backing_file').filter((file) => lines(file)[0]?.includes(service.dataDir))
      .length,
    slots: globSync('/run/cloche/slots/*').filter((file) => lines(file)[0]?.includes(id)).length,
  };
}

/** Returns whether a link, or its slot, is for packets that hostd sends itself. */
function isOfProbe(name: string, id: string): boolean {
  return name === `ct${id}` || lines(`/run/cloche/slots/${name.slice(2 + id.length)}`)[0]?.includes('"probe-') === true;
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
    // The process ended while it was read.
    return [];
  }
}
