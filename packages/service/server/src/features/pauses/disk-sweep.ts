import type { ParkedDisk } from '@cloche/runtime';
import type { Logger } from 'pino';
import type { LiveServers } from '../../platform/db/live-servers.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf, stateOf } from '../sandbox-status/status-facts.ts';
import { type KeptDisks, outlivesHost } from './kept-disks.ts';

export interface DiskSweepDeps {
  readonly sandboxes: SandboxRepository;
  readonly disks: KeptDisks;
  readonly servers: LiveServers;
  /** Destroys a sandbox whose instance and disk are gone, unless its record has changed. */
  readonly destroyLost: (sandbox: SandboxRecord) => Promise<unknown>;
  readonly log: Logger;
}

/**
 * Compares the disks that hosts keep with the records of sandboxes. What differs in two passes is mended: a disk whose
 * sandbox has ended is removed, and a sandbox ends whose files alone were kept, and are gone.
 */
export class DiskSweep {
  readonly #deps: DiskSweepDeps;
  /** Differences that the last pass has found. */
  #suspects: ReadonlySet<string> = new Set();

  constructor(deps: DiskSweepDeps) {
    this.#deps = deps;
  }

  /** Does nothing if another server does it. Rejects when a host does not answer. */
  async pass(): Promise<void> {
    const { sandboxes, disks, destroyLost, log } = this.#deps;
    if (!disks.isSupported || !(await this.#isOwn())) return;
    // A disk is kept before its record says so, so one that is missing from a later list is gone.
    const parked = (await sandboxes.listThat('hasLostMemory')).filter((record) => stateOf(record) === 'parked');
    const kept = await disks.list();
    const suspects = new Set<string>();
    const isSecond = (name: string) => {
      suspects.add(name);
      return this.#suspects.has(name);
    };
    for (const record of parked) {
      if (kept.some((disk) => isOf(disk, record)) || !isSecond(`${record.id} ${record.pauseEpoch}`)) continue;
      log.warn({ sandboxId: record.id }, 'the files of a paused sandbox are gone');
      await destroyLost(record);
    }
    for (const disk of kept) {
      const record = await sandboxes.find(disk.sandboxId);
      if ((record && !factsOf(record).isEnded) || !isSecond(`${disk.sandboxId}/${disk.generation}`)) continue;
      log.warn({ sandboxId: disk.sandboxId }, 'the disk of a sandbox that has ended is removed');
      await disks.removeDisk(disk);
    }
    this.#suspects = suspects;
  }

  /** Writes what the sandboxes that outlive a restart of their host have written since the last time. */
  async keepAll(): Promise<void> {
    const { sandboxes, disks, log } = this.#deps;
    if (!disks.isSupported || !(await this.#isOwn())) return;
    for (const record of (await sandboxes.listThat('isReady')).filter(outlivesHost)) {
      await disks.keep(record).catch((err) => log.warn({ err, sandboxId: record.id }, 'a disk could not be kept yet'));
    }
  }

  /** Returns whether this server is the one that sweeps. */
  async #isOwn(): Promise<boolean> {
    const { servers } = this.#deps;
    return [...(await servers.others())].every((other) => servers.own < other);
  }
}

function isOf(disk: ParkedDisk, { id, diskGeneration }: SandboxRecord): boolean {
  return disk.sandboxId === id && disk.generation === diskGeneration;
}
