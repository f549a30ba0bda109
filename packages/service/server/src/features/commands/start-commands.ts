import { posix } from 'node:path';
import { DEFAULT_CWD, type SandboxId } from '@cloche/contract';
import { BackOff, Deadline, reportTo } from '@cloche/node-support';
import { sql } from 'kysely';
import type { Logger } from 'pino';
import { AppError } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Loop, WatchOthers } from '../../platform/base/loop.ts';
import { serviceCall } from '../../platform/call/call.ts';
import type { Database } from '../../platform/db/database.ts';
import type { Credential } from '../../platform/keys/credential.ts';
import type { SandboxRecord } from '../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../sandbox-records/sandbox-repository.ts';
import { factsOf, sandboxThat } from '../sandbox-status/status-facts.ts';
import { lostEnding, runningCommand } from './command.ts';
import type { CommandRepository } from './command-repository.ts';
import type { CreateCommand } from './create-command.ts';

/** Time in which a start command that the agent does not answer for is tried again. */
const BEGIN_WITHIN_MS = 60_000;
const PAUSES = { firstMs: 100, longestMs: 5_000 };
/** How often a server looks for start commands whose server has ended, and how long it leaves them to that server. */
const LOOK_MS = 10_000;

/** The idempotency record of the start command of each generation begins so. */
const RECORD = 'start-';

export interface StartCommandsDeps {
  readonly db: Database;
  readonly sandboxes: SandboxRepository;
  readonly commands: CommandRepository;
  readonly createCommand: CreateCommand;
  readonly watchOthers: WatchOthers;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
}

/**
 * Begins the start command of each sandbox that has one: once for each generation, whichever server does it. One that
 * cannot be started becomes a failed command.
 */
export class StartCommands {
  readonly #deps: StartCommandsDeps;
  readonly #stopped = new AbortController();
  readonly #underWay = new Map<SandboxId, Promise<void>>();
  #looking: Pick<Loop, 'stop'> | undefined;

  constructor(deps: StartCommandsDeps) {
    this.#deps = deps;
  }

  /** Begins the start commands that servers have left, and from then on those of servers that end. */
  async start(): Promise<void> {
    await this.#takeOver(this.#deps.clock.now());
    const look = () => this.#takeOver(this.#deps.clock.now() - LOOK_MS);
    this.#looking = this.#deps.watchOthers('begin start commands', look, LOOK_MS);
  }

  /** Leaves what has not begun to other servers, or to the next process. */
  async stop(): Promise<void> {
    this.#stopped.abort();
    await this.#looking?.stop();
    await Promise.all(this.#underWay.values());
  }

  /**
   * Begins the start command of a sandbox that has become ready with a new memory: after its launch, or after a wake that
   * lost its memory. Returns at once. Does nothing for a sandbox without one, and for a generation whose command has begun.
   */
  begin({ id, startCommand }: Pick<SandboxRecord, 'id' | 'startCommand'>): void {
    if (startCommand === undefined || this.#underWay.has(id) || this.#stopped.signal.aborted) return;
    const begun = this.#begin(id)
      .catch(reportTo(this.#deps.log))
      .finally(() => this.#underWay.delete(id));
    this.#underWay.set(id, begun);
  }

  async #takeOver(readyBefore: number): Promise<void> {
    const begun = sql`select 1 from commands where commands.sandbox_id = sandboxes.id
      and commands.idempotency_record_id = ${RECORD} || cast(sandboxes.generation as text)`;
    const due = await this.#deps.db
      .selectFrom('sandboxes')
      .select('id')
      .where('start_command', 'is not', null)
      .where(sandboxThat('isReady'))
      .where(sql<boolean>`coalesce(session_started_at, ready_at) <= ${readyBefore}`)
      .where(sql<boolean>`not exists (${begun})`)
      .execute();
    for (const { id } of due) {
      const sandbox = await this.#deps.sandboxes.find(id);
      if (sandbox) this.begin(sandbox);
    }
  }

  async #begin(id: SandboxId): Promise<void> {
    const { sandboxes, log } = this.#deps;
    const sandbox = await sandboxes.find(id);
    if (!sandbox || factsOf(sandbox).isOver) return;
    using limit = new Deadline(BEGIN_WITHIN_MS, this.#stopped.signal);
    try {
      await this.#start(sandbox, limit);
    } catch (error) {
      const now = await sandboxes.find(id);
      const isGone = !now || factsOf(now).isOver || now.generation !== sandbox.generation;
      if (isGone || this.#stopped.signal.aborted) return;
      log.warn({ err: error, sandboxId: id }, 'a start command could not be started');
      await this.#fail(sandbox, error instanceof AppError ? error.message : 'The command could not be started.');
    }
  }

  /** Starts it. Tries again while the agent does not answer. */
  async #start(sandbox: SandboxRecord, { signal }: Deadline): Promise<void> {
    const { createCommand, clock, log } = this.#deps;
    const { id: sandboxId, startCommand } = sandbox;
    if (!startCommand) return;
    const work = { credential: ownerOf(sandbox), recordId: recordOf(sandbox), signal, log };
    const backOff = new BackOff(PAUSES);
    for (;;) {
      try {
        const call = serviceCall({ ...work, receivedAt: clock.now() });
        await createCommand.create(call, { sandboxId, body: { ...startCommand, background: true } });
        return;
      } catch (error) {
        if (!(error instanceof AppError && error.code === 'unavailable')) throw error;
        await backOff.pause(signal);
        if (signal.aborted) throw error;
      }
    }
  }

  /** Records it as failed, also if an attempt of it has a record already. */
  async #fail(sandbox: SandboxRecord, reason: string): Promise<void> {
    const { commands, clock, ids } = this.#deps;
    const { id: sandboxId, generation, startCommand } = sandbox;
    if (!startCommand) return;
    const { command, cwd = DEFAULT_CWD } = startCommand;
    const record = runningCommand({
      ...{ id: ids.next('cmd_'), sandboxId, generation, command, cwd: posix.resolve(DEFAULT_CWD, cwd) },
      ...{ user: 'user', background: true, startedAt: clock.now() },
      ...{ idempotencyRecordId: recordOf(sandbox), watchedBy: undefined },
    });
    const stored =
      (await commands.insert(record)) ?? (await commands.findByIdempotencyRecord(sandboxId, recordOf(sandbox)));
    if (stored) await commands.finish(stored, lostEnding(stored, reason, clock.now()));
  }
}

function recordOf({ generation }: SandboxRecord): string {
  return `${RECORD}${generation}`;
}

/** The credential for the sandbox's project. It stays valid even if the key that created the sandbox is revoked. */
function ownerOf({ orgId, projectId }: SandboxRecord): Credential {
  return { apiKeyId: 'key_start_command', orgId, scopes: new Set(), projectIds: new Set([projectId]) };
}
