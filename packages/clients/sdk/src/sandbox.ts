import type {
  CodeRun,
  CodeRunEvent,
  MemoryMode,
  PausePolicyChange,
  Sandbox as SandboxInfo,
  SandboxMetrics,
  SandboxUsage,
} from '@cloche/contract';
import { LIMITS, SANDBOX_STATUS_FACTS } from '@cloche/contract/client';
import type { ApiClient } from './api-client.ts';
import { SandboxArtifacts } from './artifacts.ts';
import { ClocheError } from './cloche-error.ts';
import { Commands } from './commands.ts';
import { Contexts } from './contexts.ts';
import { Deadline } from './deadline.ts';
import { Files } from './files.ts';
import { Previews } from './previews.ts';
import { Ptys } from './pty.ts';
import type { CallOptions } from './request.ts';
import { type RunOptions, runCode, type StreamOptions, streamCode } from './run-code.ts';

export type { Sandbox as SandboxInfo } from '@cloche/contract';

export interface UpdateSandboxOptions extends CallOptions {
  /** `null` removes the name. */
  name?: string | null | undefined;
  /** Replaces all labels. */
  metadata?: Record<string, string> | undefined;
  /** Changes the fields of the pause policy that it has; an `afterIdleMs` of `null` is never. */
  pause?: PausePolicyChange | undefined;
}

export interface PauseOptions extends CallOptions {
  /** Whether processes and variables are kept (default), kept while there is room, or dropped: files always are. */
  memory?: MemoryMode | undefined;
  /** Ends code runs and waited commands in progress first. */
  force?: boolean | undefined;
  /** How long the pause may last; the sandbox is then destroyed. */
  retainMs?: number | undefined;
}

export interface ResumeOptions extends CallOptions {
  /** `drop` boots the sandbox from its files, whatever is kept of its memory. */
  memory?: 'restore' | 'drop' | undefined;
  /** Lifetime from the wake. Default: that of the creation. */
  ttlMs?: number | undefined;
}

export interface MetricsOptions extends CallOptions {
  /** Only samples at or after this time. Default: those of the last hour. */
  from?: Date | undefined;
}

/** A sandbox. `await using` destroys it at the end of the block. */
export class Sandbox {
  readonly commands: Commands;
  readonly contexts: Contexts;
  readonly pty: Ptys;
  readonly files: Files;
  readonly artifacts: SandboxArtifacts;
  readonly previews: Previews;
  readonly #client: ApiClient;
  #info: SandboxInfo;

  constructor(client: ApiClient, info: SandboxInfo) {
    this.#client = client;
    this.#info = info;
    this.commands = new Commands(client, info.id);
    this.pty = new Ptys(client, info.id);
    this.contexts = new Contexts(client, info.id);
    this.files = new Files(client, info.id);
    this.artifacts = new SandboxArtifacts(client, info.id);
    this.previews = new Previews(client, info.id);
  }

  get id(): SandboxInfo['id'] {
    return this.#info.id;
  }

  /** The last known state; `refresh` updates it. */
  get info(): Readonly<SandboxInfo> {
    return this.#info;
  }

  async refresh(options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.call('getSandbox', { ...options, params: this.#params }));
  }

  /**
   * Waits until the sandbox is ready. Not needed before a run: the service holds runs until the sandbox is ready.
   * @param options.timeoutMs default 60000.
   * @throws {ClocheError} `sandbox_failed`, `sandbox_destroyed`, `deadline_exceeded`.
   */
  async waitUntilReady({ timeoutMs = 60_000, signal, ...options }: CallOptions = {}): Promise<this> {
    const deadline = new Deadline(timeoutMs, signal);
    try {
      do {
        const waitMs = Math.min(Math.ceil(deadline.remainingMs), LIMITS.waitMaxMs);
        const query = { waitFor: 'ready', waitMs } as const;
        this.#take(await this.#client.call('getSandbox', { ...options, signal, params: this.#params, query }));
        if (this.#isReady()) return this;
      } while (deadline.remainingMs > 0);
    } finally {
      deadline.close();
    }
    const message = `Sandbox ${this.id} is still "${this.#info.status}" after ${timeoutMs} ms; wait longer.`;
    throw new ClocheError('deadline_exceeded', message);
  }

  /**
   * Returns what the sandbox has used, up to at most ten seconds ago; after its end, until its end. It is kept as long
   * as the record of the sandbox.
   */
  async usage(options: CallOptions = {}): Promise<SandboxUsage> {
    return (await this.#client.call('getSandboxUsage', { ...options, params: this.#params })).usage;
  }

  /**
   * Sets the given fields. Does not wake the sandbox.
   * @throws {ClocheError} `conflict` if another sandbox of the project has the name, or memory cannot be kept.
   */
  async update({ name, metadata, pause, ...options }: UpdateSandboxOptions): Promise<this> {
    const body = { ...(name !== undefined && { name }), ...(metadata && { metadata }), ...(pause && { pause }) };
    return this.#take(await this.#client.call('updateSandbox', { ...options, params: this.#params, body }));
  }

  /** Sets the lifetime: the sandbox expires `ttlMs` from now, which must be later than its current expiry. */
  async setTtl(ttlMs: number, options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.call('setSandboxTtl', { ...options, params: this.#params, body: { ttlMs } }));
  }

  /**
   * Pauses the sandbox: nothing in it executes until something needs it. Its files are kept, and unless `memory` says
   * otherwise also its processes and variables.
   * @throws {ClocheError} `conflict` while runs or waited commands are in progress.
   */
  async pause({ memory, force, retainMs, ...options }: PauseOptions = {}): Promise<this> {
    const body = {
      ...(memory && { memory }),
      ...(force !== undefined && { force }),
      ...(retainMs !== undefined && { retainMs }),
    };
    return this.#take(await this.#client.call('pauseSandbox', { ...options, params: this.#params, body }));
  }

  /**
   * Resumes the sandbox. One that is not paused is left as it is, but for an expiry that `ttlMs` moves later.
   * @throws {ClocheError} `sandbox_ttl_exceeded`, and `quota_exceeded` or `unavailable`: it stays paused.
   */
  async resume({ ttlMs, memory, ...options }: ResumeOptions = {}): Promise<this> {
    const body = { ...(ttlMs !== undefined && { ttlMs }), ...(memory && { memory }) };
    return this.#take(await this.#client.call('resumeSandbox', { ...options, params: this.#params, body }));
  }

  /** Destroys the sandbox and its files at once. Idempotent. */
  async kill(options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.call('killSandbox', { ...options, params: this.#params }));
  }

  /**
   * Runs code to its end, by default Python. Code that fails or times out does not throw: see `error` of the result.
   *
   * ```ts
   * const run = await sandbox.run('1 + 1');
   * run.outputs[0]?.value; // '2'
   * ```
   */
  run(code: string, options: RunOptions = {}): Promise<CodeRun> {
    return runCode(this.#client, this.id, code, options);
  }

  /**
   * Yields the events of a run as they happen, `complete` last. Leaving the loop cancels the run.
   *
   * ```ts
   * for await (const event of sandbox.stream('print(1)')) if (event.type === 'stdout') console.log(event.data);
   * ```
   */
  stream(code: string, options: StreamOptions = {}): AsyncGenerator<CodeRunEvent, void> {
    return streamCode(this.#client, this.id, code, options);
  }

  /**
   * Measures what the sandbox uses: now, and at intervals of 10 seconds for the last hour, with its limits.
   * @throws {ClocheError} `sandbox_destroyed`, `sandbox_failed`.
   *
   * ```ts
   * const { now, limits } = await sandbox.metrics();
   * console.log(`${now.memoryBytes} of ${limits.memoryBytes} bytes`);
   * ```
   */
  async metrics({ from, ...options }: MetricsOptions = {}): Promise<SandboxMetrics> {
    const query = from === undefined ? {} : { from: from.toISOString() };
    return (await this.#client.call('getSandboxMetrics', { ...options, params: this.#params, query })).metrics;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  get #params() {
    return { sandboxId: this.id };
  }

  #take({ sandbox }: { sandbox: SandboxInfo }): this {
    this.#info = sandbox;
    return this;
  }

  /** @throws {ClocheError} when the sandbox can no longer become ready. */
  #isReady(): boolean {
    const { id, status, failureReason, destroyedReason } = this.#info;
    if (status === 'failed') {
      const details = failureReason === undefined ? {} : { reason: failureReason };
      throw new ClocheError('sandbox_failed', `Sandbox ${id} failed: ${failureReason ?? 'no reason given'}.`, {
        details,
      });
    }
    if (SANDBOX_STATUS_FACTS[status]?.isOver) {
      throw new ClocheError('sandbox_destroyed', `Sandbox ${id} is ${status} (${destroyedReason ?? 'no reason yet'}).`);
    }
    return SANDBOX_STATUS_FACTS[status]?.isReady ?? false;
  }
}
