import type { CodeRun, CodeRunEvent, Sandbox as SandboxInfo } from '@cloche/contract';
import { LIMITS } from '@cloche/contract';
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

/** One sandbox. `await using` kills it at the end of the block. */
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

  /** What the service said last; `refresh` asks again. */
  get info(): Readonly<SandboxInfo> {
    return this.#info;
  }

  async refresh(options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.call('getSandbox', { ...options, params: this.#params }));
  }

  /**
   * Waits until it is ready. Runs need not: the service lets them wait for a sandbox that is being made.
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

  /** Restarts the countdown: it ends `ttlMs` from now, which must be later than it would have. */
  async setTtl(ttlMs: number, options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.call('setSandboxTtl', { ...options, params: this.#params, body: { ttlMs } }));
  }

  /** Destroys it at once with its files. Idempotent. */
  async kill(options: CallOptions = {}): Promise<this> {
    return this.#take(await this.#client.call('killSandbox', { ...options, params: this.#params }));
  }

  /**
   * Runs code to its end, `python` unless said otherwise. Code that fails or times out is no error here: see `error`
   * of the result.
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
   * The events of a run as they happen, `complete` last. Leaving the loop cancels the run.
   *
   * ```ts
   * for await (const event of sandbox.stream('print(1)')) if (event.type === 'stdout') console.log(event.data);
   * ```
   */
  stream(code: string, options: StreamOptions = {}): AsyncGenerator<CodeRunEvent, void> {
    return streamCode(this.#client, this.id, code, options);
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

  /** @throws {ClocheError} when it can no longer become so. */
  #isReady(): boolean {
    const { id, status, failureReason, destroyedReason } = this.#info;
    if (status === 'failed') {
      const details = failureReason === undefined ? {} : { reason: failureReason };
      throw new ClocheError('sandbox_failed', `Sandbox ${id} failed: ${failureReason ?? 'no reason given'}.`, {
        details,
      });
    }
    if (status === 'destroyed' || status === 'expiring') {
      throw new ClocheError('sandbox_destroyed', `Sandbox ${id} is ${status} (${destroyedReason ?? 'no reason yet'}).`);
    }
    return status === 'ready' || status === 'running' || status === 'idle';
  }
}
