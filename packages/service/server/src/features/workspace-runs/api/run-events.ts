import type { WorkspaceRunEvent, WorkspaceRunEventPage, WorkspaceRunId } from '@cloche/contract';
import { notFound } from '../../../platform/base/app-error.ts';
import { timestamp } from '../../../platform/base/clock.ts';
import type { SseEvent } from '../../../platform/http/sse.ts';
import type { LogEntry, SequenceLog } from '../../../platform/sequence-log/sequence-log.ts';
import { toWorkspaceRun } from '../record/workspace-run.ts';
import type { WorkspaceRunRepository } from '../record/workspace-run-repository.ts';

/** Reads the events of workspace runs, in pages and as streams. */
export class RunEvents {
  readonly #runs: WorkspaceRunRepository;
  readonly #runLog: SequenceLog;

  constructor(runs: WorkspaceRunRepository, runLog: SequenceLog) {
    this.#runs = runs;
    this.#runLog = runLog;
  }

  async read(id: WorkspaceRunId, afterSeq: number, limit: number): Promise<WorkspaceRunEventPage> {
    const { data, nextSeq, hasMore } = await this.#runLog.read(id, afterSeq, limit);
    return { data: data.map(toEvent), nextSeq, hasMore };
  }

  /** Yields the events that follow `afterSeq`, and `exit` with the run when it has finished. */
  async *follow(id: WorkspaceRunId, afterSeq: number, signal: AbortSignal): AsyncGenerator<SseEvent, void> {
    for await (const entry of this.#runLog.follow(id, afterSeq, signal)) {
      const { seq, at, type, data } = toEvent(entry);
      yield { id: seq, type, data, fields: { seq, at } };
    }
    const record = await this.#runs.find(id);
    if (!record) throw notFound('workspace run', id);
    yield { type: 'exit', data: toWorkspaceRun(record) };
  }
}

/** The cast is sound because only the server writes entries of these logs. */
function toEvent({ seq, at, type, data }: LogEntry): WorkspaceRunEvent {
  return { seq, at: timestamp(at), type, data } as WorkspaceRunEvent;
}
