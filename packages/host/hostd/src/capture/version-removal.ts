import { setTimeout as delay } from 'node:timers/promises';
import { HostdError } from '../base/hostd-error.ts';
import type { InstanceRecords } from '../instance/instance-records.ts';
import { versionOfSource } from '../instance/instance-source.ts';
import type { CapturedVersions } from '../storage/captured-versions.ts';
import type { ParkedDisks } from '../storage/parked-disks.ts';

/**
 * Attempts to empty the pool of a version, and the pause after each. One attempt is not enough while the pool is
 * launching an instance of the version.
 */
const ATTEMPTS = 20;
const PAUSE_MS = 100;

export interface VersionRemovalDeps {
  records: InstanceRecords;
  captured: CapturedVersions;
  /** Kept disks need the versions below them. */
  parkedDisks: Pick<ParkedDisks, 'versions'>;
  /** Removes the unclaimed instances of retired versions from the pool. The pool launches no further ones. */
  emptyPool: () => Promise<void>;
}

/** Removes captured versions that nothing uses. */
export class VersionRemoval {
  readonly #deps: VersionRemovalDeps;

  constructor(deps: VersionRemovalDeps) {
    this.#deps = deps;
  }

  /**
   * Removes a version and its unclaimed instances. Other versions that share its layers keep these. Idempotent. Throws
   * `version_in_use` while a sandbox has an instance of the version, or if the version was captured again after
   * `lastCapturedAt`.
   * After an error the version is unchanged.
   */
  async remove(id: string, lastCapturedAt = this.#deps.captured.lastCapturedAt(id) ?? 0): Promise<void> {
    const { captured, emptyPool } = this.#deps;
    this.#assertNotCapturedSince(id, lastCapturedAt);
    this.#assertUnclaimed(id);
    using _ = captured.retire(id);
    for (let attempt = 1; this.#users(id).length > 0; attempt += 1) {
      await emptyPool();
      this.#assertUnclaimed(id);
      if (this.#users(id).length === 0) break;
      if (attempt === ATTEMPTS) throw inUse(id);
      await delay(PAUSE_MS);
    }
    this.#assertNotCapturedSince(id, lastCapturedAt);
    captured.remove(id);
  }

  /** Removes the snapshots that were not used for `retentionMs`. */
  async removeUnused(retentionMs: number): Promise<void> {
    for (const id of this.#deps.captured.snapshotsUnusedSince(Date.now() - retentionMs)) {
      if (this.#users(id).length === 0) await this.remove(id);
    }
  }

  #assertNotCapturedSince(id: string, lastCapturedAt: number): void {
    const last = this.#deps.captured.lastCapturedAt(id) ?? 0;
    if (last > lastCapturedAt)
      throw new HostdError('version_in_use', `${id} was captured again after it was to be removed`);
  }

  #assertUnclaimed(id: string): void {
    if (this.#users(id).some((status) => status !== 'pooled' && status !== 'launching')) throw inUse(id);
  }

  /** Returns the status of each instance and kept disk of a version, including instances that are being launched. */
  #users(id: string): string[] {
    const { records, parkedDisks } = this.#deps;
    const instances = records.keys().flatMap((key) => {
      const record = records.read(key);
      return record?.source && versionOfSource(record.source) === id ? [record.status] : [];
    });
    return parkedDisks.versions().has(id) ? [...instances, 'parked'] : instances;
  }
}

function inUse(id: string): HostdError {
  return new HostdError('version_in_use', `a sandbox needs ${id}; stop it first`);
}
