import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LaunchSpec } from '@cloche/protocol';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { errorCode } from '../kernel/libc.ts';
import { type InstanceKey, isInstanceKey } from './instance-key.ts';

const Process = Type.Object({ pid: Type.Integer(), startTicks: Type.Integer(), bootId: Type.String() });

/** Written before a launch makes anything, so that whatever a crash leaves behind has a name to be removed by. */
const LaunchIntent = Type.Object({
  status: Type.Literal('launching'),
  sandboxId: Type.String(),
  generation: Type.Integer(),
});

const LiveRecord = Type.Object({
  status: Type.Literal('live'),
  sandboxId: Type.String(),
  generation: Type.Integer(),
  templateVersionId: Type.String(),
  startedAt: Type.String(),
  slot: Type.Integer(),
  loopDevice: Type.Integer(),
  /** Absent in what an earlier release wrote, which gated nothing. */
  network: Type.Optional(LaunchSpec.properties.network),
  /** The first process of the sandbox: the sandbox lives as long as it does. */
  init: Process,
});
export type LiveRecord = Static<typeof LiveRecord>;

const InstanceRecord = Type.Union([LaunchIntent, LiveRecord]);
export type InstanceRecord = Static<typeof InstanceRecord>;

/** One folder an instance: what hostd knows of it, and the bundle that its runtime was given. */
export class InstanceRecords {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  }

  folderOf(key: InstanceKey): string {
    return join(this.#dir, key);
  }

  /** Replaces the record in one step; makes the folder. */
  write(key: InstanceKey, record: InstanceRecord): void {
    const folder = this.folderOf(key);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const draft = join(folder, 'instance.json.new');
    writeFileSync(draft, JSON.stringify(record), { mode: 0o600 });
    renameSync(draft, join(folder, 'instance.json'));
  }

  /** Undefined when there is none, or only a folder that a crash left without one. */
  read(key: InstanceKey): InstanceRecord | undefined {
    try {
      const record: unknown = JSON.parse(readFileSync(join(this.folderOf(key), 'instance.json'), 'utf8'));
      return Value.Check(InstanceRecord, record) ? record : undefined;
    } catch (error) {
      if (errorCode(error) === 'ENOENT' || error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  /** Every key that has a folder. */
  keys(): InstanceKey[] {
    return readdirSync(this.#dir).filter(isInstanceKey);
  }

  remove(key: InstanceKey): void {
    rmSync(this.folderOf(key), { recursive: true, force: true });
  }
}
