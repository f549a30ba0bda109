import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LaunchSpec, TemplateSource } from '@cloche/protocol';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { errorCode } from '../linux/libc.ts';
import { isProcessAlive } from '../linux/process-identity.ts';
import { type InstanceKey, type InstanceName, instanceKey, isInstanceKey } from './instance-key.ts';

const Process = Type.Object({ pid: Type.Integer(), startTicks: Type.Integer(), bootId: Type.String() });

/** Counters of an instance since its launch. */
const Counters = Type.Object({ cpuUs: Type.Number(), egressBytes: Type.Integer(), ingressBytes: Type.Integer() });
export type Counters = Static<typeof Counters>;

/** The image of a disk (`ImageReference`). Absent in the records of earlier releases. */
const image = Type.Optional(Type.Object({ name: Type.String(), handle: Type.Optional(Type.String()) }));

/** Written before a launch creates anything, so that whatever a crash leaves behind can be removed by this name. */
const LaunchIntent = Type.Object({
  status: Type.Literal('launching'),
  diskBytes: Type.Integer(),
  image,
  source: TemplateSource,
});

const running = {
  source: TemplateSource,
  startedAt: Type.String(),
  slot: Type.Integer(),
  loopDevice: Type.Integer(),
  /** Bytes of the disk. */
  diskBytes: Type.Integer(),
  image,
  /** Host id that the files of the sandbox's root have on a disk of an earlier incarnation; otherwise the slot's first. */
  firstId: Type.Optional(Type.Integer()),
  /** The memory limit. Absent in records of an earlier release. */
  memoryBytes: Type.Optional(Type.Integer()),
  /** The first process of the sandbox; the sandbox lives as long as this process. */
  init: Process,
};

/** An instance launched ahead of demand and not claimed. The next hostd removes it. */
const PooledRecord = Type.Object({
  status: Type.Literal('pooled'),
  ...running,
  /** Whether the instance gets the link of its network when it is claimed. */
  isUnlinked: Type.Optional(Type.Literal(true)),
});
export type PooledRecord = Static<typeof PooledRecord>;

const claimed = {
  sandboxId: Type.String(),
  generation: Type.Integer(),
  ...running,
  /**
   * Resources that the instance had used before a sandbox claimed it. Absent if the instance was launched for its sandbox.
   */
  usedBefore: Type.Optional(Counters),
  network: LaunchSpec.properties.network,
};
const LiveRecord = Type.Object({ status: Type.Literal('live'), ...claimed });
export type LiveRecord = Static<typeof LiveRecord>;

/** Killed and waiting for removal. The instance never becomes live again. */
const EndingRecord = Type.Object({ status: Type.Literal('ending'), ...claimed });

const InstanceRecord = Type.Union([LaunchIntent, PooledRecord, LiveRecord, EndingRecord]);
export type InstanceRecord = Static<typeof InstanceRecord>;

/**
 * One folder for each instance: its record and the bundle for its runtime. No other process writes there, so the disk
 * is read once, at the start.
 */
export class InstanceRecords {
  readonly #dir: string;
  /** Records by instance; undefined for a folder that a crash left without a readable record. */
  readonly #records = new Map<InstanceKey, InstanceRecord | undefined>();
  /** Keys of claimed instances, by the key that an instance launched for the same incarnation would have. */
  readonly #claims = new Map<InstanceKey, InstanceKey>();

  constructor(dir: string) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    for (const key of readdirSync(dir).filter(isInstanceKey)) this.#remember(key, this.#load(key));
  }

  folderOf(key: InstanceKey): string {
    return join(this.#dir, key);
  }

  /** Replaces the record atomically; creates the folder if needed. */
  write(key: InstanceKey, record: InstanceRecord): void {
    const folder = this.folderOf(key);
    if (!this.#records.has(key)) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const draft = join(folder, 'instance.json.new');
    writeFileSync(draft, JSON.stringify(record), { mode: 0o600 });
    renameSync(draft, join(folder, 'instance.json'));
    this.#remember(key, record);
  }

  /** Returns undefined when there is no record, or when a crash left only a folder. */
  read(key: InstanceKey): InstanceRecord | undefined {
    return this.#records.get(key);
  }

  /** Returns the record of an instance that a sandbox has and that lives: its first process does. */
  findLive(key: InstanceKey): LiveRecord | undefined {
    const record = this.#records.get(key);
    return record?.status === 'live' && isProcessAlive(record.init) ? record : undefined;
  }

  /** Returns the record of an instance that waits for a sandbox and lives. */
  findPooled(key: InstanceKey): PooledRecord | undefined {
    const record = this.#records.get(key);
    return record?.status === 'pooled' && isProcessAlive(record.init) ? record : undefined;
  }

  /** Returns the key of the incarnation's instance, or the key that a new launch of it would have. */
  keyOf(name: InstanceName): InstanceKey {
    const own = instanceKey(name);
    return this.#claims.get(own) ?? own;
  }

  /** Returns every key that has a folder. */
  keys(): InstanceKey[] {
    return [...this.#records.keys()];
  }

  remove(key: InstanceKey): void {
    rmSync(this.folderOf(key), { recursive: true, force: true });
    const record = this.#records.get(key);
    this.#records.delete(key);
    if (isClaimed(record) && this.#claims.get(instanceKey(record)) === key) this.#claims.delete(instanceKey(record));
  }

  #remember(key: InstanceKey, record: InstanceRecord | undefined): void {
    this.#records.set(key, record);
    if (isClaimed(record)) this.#claims.set(instanceKey(record), key);
  }

  #load(key: InstanceKey): InstanceRecord | undefined {
    try {
      const record: unknown = JSON.parse(readFileSync(join(this.folderOf(key), 'instance.json'), 'utf8'));
      return Value.Check(InstanceRecord, record) ? record : undefined;
    } catch (error) {
      if (errorCode(error) === 'ENOENT' || error instanceof SyntaxError) return undefined;
      throw error;
    }
  }
}

function isClaimed(record: InstanceRecord | undefined): record is InstanceRecord & InstanceName {
  return record !== undefined && 'sandboxId' in record;
}
