import type { CodeContext, CodeRun, CodeRunEvent, Language } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import type { CallOptions } from './request.ts';
import { type RunOptions, runCode, type StreamOptions, streamCode } from './run-code.ts';

/** A namespace of one language in a sandbox. Variables of one run are available to the next. */
export class Context {
  readonly #client: ApiClient;
  #info: CodeContext;

  constructor(client: ApiClient, info: CodeContext) {
    this.#client = client;
    this.#info = info;
  }

  /** The last known state. */
  get info(): Readonly<CodeContext> {
    return this.#info;
  }

  get id(): CodeContext['id'] {
    return this.#info.id;
  }

  get language(): Language {
    return this.#info.language;
  }

  /** Runs code in the context, after the runs that were sent to it before. */
  run(code: string, options: Omit<RunOptions, 'context' | 'language'> = {}): Promise<CodeRun> {
    return runCode(this.#client, this.#info.sandboxId, code, { ...options, context: this });
  }

  /** Yields the events of a run as they happen. Leaving the loop cancels the run. */
  stream(code: string, options: Omit<StreamOptions, 'context' | 'language'> = {}): AsyncGenerator<CodeRunEvent, void> {
    return streamCode(this.#client, this.#info.sandboxId, code, { ...options, context: this });
  }

  /** Interrupts the current run, which ends with `CanceledError`. Keeps the variables. */
  async interrupt(options: CallOptions = {}): Promise<void> {
    this.#info = (await this.#client.call('interruptContext', { ...options, params: this.#params })).context;
  }

  /** Replaces the kernel: the variables are lost, the id stays. */
  async restart(options: CallOptions = {}): Promise<void> {
    this.#info = (await this.#client.call('restartContext', { ...options, params: this.#params })).context;
  }

  /** Deletes the context and ends its runs. Idempotent. */
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
