import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { eventually } from '@cloche/testkit/eventually';
import { residentBytes } from '../process.ts';

/** Longest time until the service has closed its idle connections, which it keeps for 85 s, on a busy machine. */
const GIVEN_BACK_MS = 180_000;

export interface Held {
  readonly descriptors: number;
  readonly bytes: number;
}

/** Returns what a process holds now. */
export function heldBy(pid: number): Held {
  return { descriptors: readdirSync(`/proc/${pid}/fd`).length, bytes: residentBytes(pid) };
}

/** Returns what the descriptors of a process are: sockets by state, files by path. */
function describeDescriptors(pid: number): string {
  const folder = `/proc/${pid}/fd`;
  const kinds = readdirSync(folder).map((name) => {
    try {
      return readlinkSync(join(folder, name)).replace(/\d+/g, 'N');
    } catch {
      return 'closed meanwhile';
    }
  });
  const { stdout } = spawnSync('ss', ['--all', '--numeric', '--tcp', '--unix', '--processes'], { encoding: 'utf8' });
  const sockets = stdout
    .split('\n')
    .filter((line) => line.includes(`pid=${pid},`))
    .map((line) => line.trim().split(/\s+/))
    .map(([kind = '', state = '', , , local = '']) => `${kind} ${state} ${local.replace(/[a-z0-9]{8,}/g, '…')}`);
  const counts = Map.groupBy([...kinds, ...sockets], (kind) => kind);
  return [...counts]
    .toSorted(([, one], [, other]) => other.length - one.length)
    .map(([kind, { length }]) => `${length} × ${kind}`)
    .join('\n');
}

/** Fails unless a process soon holds no more than before an attack, apart from `more`. */
export async function assertGivenBack(pid: number, before: Held, more: Held): Promise<void> {
  const isGivenBack = () => heldBy(pid).descriptors <= before.descriptors + more.descriptors;
  await eventually(isGivenBack, { within: GIVEN_BACK_MS }).catch(() => undefined);
  assert.ok(isGivenBack(), `${before.descriptors} descriptors before, now\n${describeDescriptors(pid)}`);
  const grown = heldBy(pid).bytes - before.bytes;
  assert.ok(grown < more.bytes, `${grown} bytes more`);
}
