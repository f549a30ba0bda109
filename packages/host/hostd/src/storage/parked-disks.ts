import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ParkedDisk } from '@cloche/protocol';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { HostdError } from '../base/hostd-error.ts';
import { type InstanceKey, type InstanceName, instanceKey, isInstanceKey } from '../instance/instance-key.ts';
import { errorCode } from '../linux/libc.ts';
import { BOOT_ID } from '../linux/process-identity.ts';
import { syncFile } from '../linux/write-out.ts';

/** Everything that a launch from the disk needs. Written last, so a disk without it is incomplete. */
const ParkedRecord = Type.Object({
  sandboxId: Type.String(),
  generation: Type.Integer(),
  /** The version whose files are below the disk. */
  templateVersionId: Type.String(),
  diskBytes: Type.Integer(),
  /** Host id that the files of the sandbox's root have on the disk. */
  firstId: Type.Integer(),
  /** When the files were written to the disk of the host last. */
  keptAt: Type.String(),
  /** Whether hostd has unmounted the disk, and no instance has used it since. */
  isClean: Type.Boolean(),
  /** Id of the host's boot. A note that the disk was used may be lost with the power of the host. */
  bootId: Type.String(),
});
export type ParkedRecord = Static<typeof ParkedRecord>;

/** A disk that one launch has, until it is disposed of. */
export interface TakenDisk extends Disposable {
  readonly record: ParkedRecord;
}

const RECORD_FILE = 'parked.json';
const IMAGE_FILE = 'disk.img';

/** The disks of one installation that outlive their instances, one folder for each incarnation of a sandbox. */
export class ParkedDisks {
  readonly #dir: string;
  readonly #records = new Map<InstanceKey, ParkedRecord>();
  /** Disks that a launch is taking. */
  readonly #taken = new Set<InstanceKey>();

  /** Removes folders without a record, which no answer has named. */
  constructor(dir: string) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(dir)) {
      const record = readRecord(join(dir, name));
      if (record !== undefined && isInstanceKey(name)) this.#records.set(name, record);
      else rmSync(join(dir, name), { recursive: true });
    }
  }

  find(name: InstanceName): ParkedRecord | undefined {
    return this.#records.get(instanceKey(name));
  }

  list(): ParkedDisk[] {
    return [...this.#records.values()].map((record) => this.describe(record));
  }

  describe({ sandboxId, generation, templateVersionId, diskBytes, keptAt }: ParkedRecord): ParkedDisk {
    const bytes = statSync(this.imageOf({ sandboxId, generation })).blocks * 512;
    return { sandboxId, generation, templateVersionId, diskBytes, bytes, keptAt };
  }

  /** Returns the versions that a launch from a disk needs. */
  versions(): Set<string> {
    return new Set([...this.#records.values()].map(({ templateVersionId }) => templateVersionId));
  }

  /** Path of the image, under a name of its own. */
  imageOf(name: InstanceName): string {
    return join(this.#folderOf(instanceKey(name)), IMAGE_FILE);
  }

  /** Makes the folder of a disk. Until `save`, a hostd that starts anew removes it. */
  makeFolder(name: InstanceName): void {
    mkdirSync(this.#folderOf(instanceKey(name)), { recursive: true, mode: 0o700 });
  }

  /** Resolves when the image and its record survive a loss of power. Removes older names of the same image. */
  async save(record: Omit<ParkedRecord, 'bootId'>): Promise<ParkedRecord> {
    const folder = this.#folderOf(instanceKey(record));
    await syncFile(this.imageOf(record));
    const saved = { ...record, bootId: BOOT_ID };
    const file = join(folder, RECORD_FILE);
    await writeFile(`${file}.new`, JSON.stringify(saved), { mode: 0o600, flush: true });
    renameSync(`${file}.new`, file);
    await syncFile(folder);
    await syncFile(this.#dir);
    this.#records.set(instanceKey(record), saved);
    this.#removeOlderNames(saved);
    return saved;
  }

  /**
   * Notes that an instance uses a disk, so that it is checked before the next use. Not durable: after a loss of power,
   * each disk is checked.
   */
  noteUse(record: ParkedRecord): void {
    const key = instanceKey(record);
    if (!record.isClean) return;
    const used = { ...record, isClean: false };
    const file = join(this.#folderOf(key), RECORD_FILE);
    writeFileSync(`${file}.new`, JSON.stringify(used), { mode: 0o600 });
    renameSync(`${file}.new`, file);
    this.#records.set(key, used);
  }

  /**
   * Gives a disk to one launch, until the result is disposed of. Throws `disk_not_found`, `disk_in_use`.
   */
  take(name: InstanceName): TakenDisk {
    const key = instanceKey(name);
    const record = this.#records.get(key);
    if (record === undefined) throw new HostdError('disk_not_found', `the disk of ${key} is not kept on this host`);
    if (this.#taken.has(key))
      throw new HostdError('disk_in_use', `another instance is launched from the disk of ${key}`);
    this.#taken.add(key);
    return {
      record,
      [Symbol.dispose]: () => {
        this.#taken.delete(key);
      },
    };
  }

  /** Removes a disk. An instance that uses it keeps it. Idempotent. */
  remove(name: InstanceName): void {
    const key = instanceKey(name);
    this.#records.delete(key);
    // First, so that an interrupted removal leaves an incomplete disk.
    rmSync(join(this.#folderOf(key), RECORD_FILE), { force: true });
    rmSync(this.#folderOf(key), { recursive: true, force: true });
  }

  /** An instance that was launched from a kept disk has the same image as the incarnation before it. */
  #removeOlderNames({ sandboxId, generation }: ParkedRecord): void {
    const { ino } = statSync(this.imageOf({ sandboxId, generation }));
    for (const older of this.#records.values()) {
      if (older.sandboxId !== sandboxId || older.generation >= generation) continue;
      if (statSync(this.imageOf(older)).ino === ino) this.remove(older);
    }
  }

  #folderOf(key: InstanceKey): string {
    return join(this.#dir, key);
  }
}

/** Returns whether a file system may be damaged, because this host did not unmount it after its last use. */
export function needsCheck({ isClean, bootId }: ParkedRecord): boolean {
  return !isClean || bootId !== BOOT_ID;
}

function readRecord(folder: string): ParkedRecord | undefined {
  try {
    statSync(join(folder, IMAGE_FILE));
    const record: unknown = JSON.parse(readFileSync(join(folder, RECORD_FILE), 'utf8'));
    return Value.Check(ParkedRecord, record) ? record : undefined;
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '') || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
