import { createHash } from 'node:crypto';
import { posix } from 'node:path';
import { type ArtifactId, DEFAULT_CWD, LIMITS } from '@cloche/contract';
import { Deadline, sortInSlices, TimeSlice } from '@cloche/node-support';
import type { AgentFile } from '@cloche/protocol';
import type { Logger } from 'pino';
import { AppError } from '../../../platform/base/app-error.ts';
import type { Clock } from '../../../platform/base/clock.ts';
import type { ClaimedRows } from '../../../platform/db/claimed-rows.ts';
import type { Transactions } from '../../../platform/db/transactions.ts';
import type { SequenceLog } from '../../../platform/sequence-log/sequence-log.ts';
import type { ExportArtifact } from '../../artifacts/export-artifact.ts';
import type { AccessFiles } from '../../files/access-files.ts';
import { ArtifactPattern, type PatternState } from './artifact-patterns.ts';
import { type ClaimedRun, claimGuard } from './claimed-run.ts';

/** Longest time for exporting all artifacts of a run. */
const EXPORT_MS = 900_000;
/** Most directory entries that are compared with the patterns of a run. */
const MAX_ENTRIES = 200_000;

interface Reported {
  readonly path: string;
  readonly artifactId?: ArtifactId;
}

export interface ExportArtifactsDeps {
  readonly files: Pick<AccessFiles, 'act'>;
  readonly exportArtifact: ExportArtifact;
  readonly runLog: SequenceLog;
  readonly claims: ClaimedRows;
  readonly transactions: Transactions;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Exports the files that the patterns of a run select. Appends an event for each file, whether or not its export
 * succeeded. Writes only while the claim holds: artifacts of an ended run would be in none of its events.
 */
export class ExportArtifacts {
  readonly #deps: ExportArtifactsDeps;

  constructor(deps: ExportArtifactsDeps) {
    this.#deps = deps;
  }

  /** Returns the ids of all artifacts of the run. Continues where an earlier call ended. Rejects when `run` ends. */
  async export(run: ClaimedRun): Promise<readonly ArtifactId[]> {
    const { artifacts: patterns } = run.record.settings;
    if (patterns.length === 0) return [];
    const earlier = await this.#deps.runLog.listOfType(run.record.id, 'artifact');
    const reported = new Map(earlier.map(({ data }) => [(data as Reported).path, data as Reported]));
    using limit = new Deadline(EXPORT_MS, run.signal);
    for (const pattern of patterns) {
      try {
        let selects = false;
        for await (const file of this.#select(run, pattern, limit.signal)) {
          selects = true;
          if (reported.has(file)) continue;
          if (reported.size >= LIMITS.workspaceRunArtifacts) throw tooMany();
          reported.set(file, await this.#exportFile(run, file, limit.signal));
        }
        if (!selects) throw new AppError('not_found', 'The pattern selects no file.');
      } catch (error) {
        run.signal.throwIfAborted();
        const reason = described(error, limit);
        if (!reported.has(pattern)) reported.set(pattern, await this.#report(run, { path: pattern, error: reason }));
      }
    }
    return [...reported.values()].flatMap(({ artifactId }) => artifactId ?? []);
  }

  async #exportFile(run: ClaimedRun, path: string, signal: AbortSignal): Promise<Reported> {
    const { sandboxId, id } = run.record;
    if (sandboxId === undefined) throw new Error(`${id} has no sandbox`);
    const recordId = `${id}:${createHash('sha256').update(path).digest('base64url')}`;
    const { clock, log } = this.#deps;
    const call = run.call({ signal, recordId, receivedAt: clock.now(), log });
    try {
      const artifact = await this.#deps.exportArtifact.export(call, {
        sandboxId,
        body: { path },
        workspaceRunId: id,
        guard: claimGuard(run, this.#deps),
      });
      return await this.#report(run, { path, artifactId: artifact.id });
    } catch (error) {
      // The limits of the whole export end it; anything else concerns this file.
      if (signal.aborted || !(error instanceof AppError) || isSandboxGone(error)) throw error;
      return this.#report(run, { path, error: { code: error.code, message: error.message } });
    }
  }

  async #report(run: ClaimedRun, data: Reported & { readonly error?: unknown }): Promise<Reported> {
    const { transactions, runLog } = this.#deps;
    const requireClaim = claimGuard(run, this.#deps);
    await transactions.run(async (tx) => {
      await requireClaim(tx);
      await runLog.append(run.record.id, [{ type: 'artifact', data }], { tx });
    });
    return data;
  }

  /** Yields the paths of the files that a pattern selects, relative to the workspace, in the order of their names. */
  async *#select(run: ClaimedRun, text: string, signal: AbortSignal): AsyncGenerator<string, void> {
    const { sandboxId } = run.record;
    if (sandboxId === undefined) return;
    const pattern = new ArtifactPattern(text);
    const caller = { credential: run.credential, signal };
    const open: { readonly path: string; readonly state: PatternState; readonly depth: number }[] = [
      { path: DEFAULT_CWD, state: pattern.start, depth: 0 },
    ];
    const timeSlice = new TimeSlice();
    let seen = 0;
    for (let folder = open.pop(); folder; folder = open.pop()) {
      const { path, state, depth } = folder;
      const options = { depth: 1, limit: LIMITS.fileListEntries };
      const entries = await this.#deps.files.act(caller, sandboxId, (files, limit) =>
        Array.fromAsync(files.list(path, options, limit)),
      );
      seen += entries.length;
      if (seen > MAX_ENTRIES) throw tooManyEntries();
      const further: typeof open = [];
      for (const entry of await sortInSlices(entries, byName)) {
        if (timeSlice.isOver) await timeSlice.yieldIfOver();
        const next = pattern.next(state, entry.name);
        if (entry.type === 'file' && pattern.accepts(next)) yield relative(entry.path);
        if (entry.type !== 'directory' || next.size === 0 || depth >= LIMITS.fileListDepth) continue;
        further.push({ path: entry.path, state: next, depth: depth + 1 });
      }
      for (const below of further.reverse()) open.push(below);
    }
  }
}

function byName(one: AgentFile, other: AgentFile): number {
  return one.name < other.name ? -1 : 1;
}

/** A path whose bytes are not UTF-8 is a URI and stays one. */
function relative(path: string): string {
  return path.startsWith(`${DEFAULT_CWD}/`) ? posix.relative(DEFAULT_CWD, path) : path;
}

function isSandboxGone({ code }: AppError): boolean {
  return code === 'sandbox_destroyed' || code === 'sandbox_failed';
}

function described(error: unknown, limit: Deadline) {
  if (limit.endedBy === 'timeout') {
    return { code: 'unavailable', message: `The artifacts were not exported within ${EXPORT_MS / 60_000} minutes.` };
  }
  if (error instanceof AppError) return { code: error.code, message: error.message };
  throw error;
}

function tooMany(): AppError {
  const message = `A run has at most ${LIMITS.workspaceRunArtifacts} artifacts; export directories as archives, or less.`;
  return new AppError('payload_too_large', message);
}

function tooManyEntries(): AppError {
  const message = `The patterns look at more than ${MAX_ENTRIES} files; begin them with the name of a directory.`;
  return new AppError('payload_too_large', message);
}
