import { LIMITS, type TemplateBuildId, type TemplateBuildLogEntry, type TemplateBuildLogPage } from '@cloche/contract';
import type { Changes } from '../../../platform/base/changes.ts';
import { timestamp } from '../../../platform/base/clock.ts';
import type { Transaction } from '../../../platform/db/transactions.ts';
import { type LogEntry, SequenceLog, type SequenceLogDeps } from '../../../platform/sequence-log/sequence-log.ts';

export type NewLogEntry = Pick<TemplateBuildLogEntry, 'step' | 'stream' | 'data'>;

/** The logs of builds, in the database. */
export class BuildLog {
  readonly #log: SequenceLog;

  constructor(deps: SequenceLogDeps, appended: Changes<string>) {
    this.#log = new SequenceLog(deps, { keptBytes: LIMITS.templateBuildLogBytes, appended });
  }

  async append(id: TemplateBuildId, entries: readonly NewLogEntry[], tx?: Transaction): Promise<void> {
    const rows = entries.map(({ step, stream, data }) => ({
      type: stream,
      data: { step, text: data },
      outputBytes: Buffer.byteLength(data),
    }));
    await this.#log.append(id, rows, tx ? { tx } : {});
  }

  /** Appends a last note and ends the log, in the transaction that ends the build. */
  async close(id: TemplateBuildId, note: string, tx: Transaction): Promise<void> {
    await this.#log.append(id, [{ type: 'system', data: { step: 0, text: note } }], { tx });
    await this.#log.close(id, tx);
  }

  async page(id: TemplateBuildId, afterSeq: number, limit: number): Promise<TemplateBuildLogPage> {
    const { data, nextSeq, hasMore } = await this.#log.read(id, afterSeq, limit);
    return { data: data.map(toEntry), nextSeq, hasMore };
  }

  /** Yields the entries after `afterSeq`, also those that are still to come, until the build has ended. */
  async *follow(
    id: TemplateBuildId,
    afterSeq: number,
    signal: AbortSignal,
  ): AsyncGenerator<TemplateBuildLogEntry, void> {
    for await (const entry of this.#log.follow(id, afterSeq, signal)) yield toEntry(entry);
  }
}

/** The log writes an entry of its own about dropped output; its data is the text alone. */
function toEntry({ seq, type, at, data }: LogEntry): TemplateBuildLogEntry {
  const { step, text } = typeof data === 'string' ? { step: 0, text: data } : (data as { step: number; text: string });
  // Sound: only this class and the log write entries.
  return { seq, step, stream: type as TemplateBuildLogEntry['stream'], data: text, at: timestamp(at) };
}
