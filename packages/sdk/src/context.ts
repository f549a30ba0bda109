import type { CodeContext, CodeRun, CodeRunEvent, Language } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import type { CallOptions } from './request.ts';
import { type RunOptions, runCode, type StreamOptions, streamCode } from './run-code.ts';

/** A namespace of one language in a sandbox: what a run defines, the next one finds. */
export class Context {
  readonly #client: ApiClient;
  #info: CodeContext;

  constructor(client: ApiClient, info: CodeContext) {
    this.#client = client;
    this.#info = info;
  }

  /** What the service said last. */
  get info(): Readonly<CodeContext> {
    return this.#info;
  }

  get id(): CodeContext['id'] {
    return this.#info.id;
  }

  get language(): Language {
    return this.#info.language;
  }

  /** Runs code in it, after the runs sent to it before. */
  run(code: string, options: Omit<RunOptions, 'context' | 'language'> = {}): Promise<CodeRun> {
    return runCode(this.#client, this.#info.sandboxId, code, { ...options, context: this });
  }

  /** The events of a run as they happen; leaving the loop cancels the run. */
  stream(code: string, options: Omit<StreamOptions, 'context' | 'language'> = {}): AsyncGenerator<CodeRunEvent, void> {
    return streamCode(this.#client, this.#info.sandboxId, code, { ...options, context: this });
  }

  /** Stops the current execution, which answers with `CanceledError`, and keeps the variables. */
  async interrupt(options: CallOptions = {}): Promise<void> {
    this.#info = (await this.#client.call('interruptContext', { ...options, params: this.#params })).context;
  }

  /** Gives it a fresh kernel: the variables are gone, the id stays. */
  async restart(options: CallOptions = {}): Promise<void> {
    this.#info = (await this.#client.call('restartContext', { ...options, params: this.#params })).context;
  }

  /** Ends it with whatever runs in it. Idempotent. */
  async delete(options: CallOptions = {}): Promise<void> {
    this.#info = (await this.#client.call('deleteContext', { ...options, params: this.#params })).context;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.delete();
  }

  get #params() {
    return { sandboxId: this.#info.sandboxId, contextId: this.#info.id };
  }
}
