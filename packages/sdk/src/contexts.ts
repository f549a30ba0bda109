import type { CodeContext, CreateContextBody, Language } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { Context } from './context.ts';
import type { CallOptions } from './request.ts';

export interface CreateContextOptions extends Omit<CallOptions, 'timeoutMs'> {
  /** Default: `python`. */
  language?: Language | undefined;
  /** Default: `/workspace`. */
  cwd?: string | undefined;
  /** Milliseconds that bound the creation, and the default of this context's runs. Default: 30000. */
  timeoutMs?: number | undefined;
}

/** The contexts of one sandbox. */
export class Contexts {
  readonly #client: ApiClient;
  readonly #sandboxId: CodeContext['sandboxId'];

  constructor(client: ApiClient, sandboxId: CodeContext['sandboxId']) {
    this.#client = client;
    this.#sandboxId = sandboxId;
  }

  async create(options: CreateContextOptions = {}): Promise<Context> {
    const { language = 'python', cwd, timeoutMs, signal, idempotencyKey, maxRetries } = options;
    const body: CreateContextBody = {
      language,
      ...(cwd === undefined ? {} : { cwd }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
    };
    const params = { sandboxId: this.#sandboxId };
    const { context } = await this.#client.call('createContext', { params, body, signal, idempotencyKey, maxRetries });
    return new Context(this.#client, context);
  }

  /** The active ones, oldest first. */
  async list(options: CallOptions = {}): Promise<Context[]> {
    const params = { sandboxId: this.#sandboxId };
    const { data } = await this.#client.call('listContexts', { ...options, params });
    return data.map((context) => new Context(this.#client, context));
  }

  /** @throws {ClocheError} `not_found` also when it was deleted. */
  async get(contextId: string, options: CallOptions = {}): Promise<Context> {
    const { context } = await this.#client.call('getContext', { ...options, params: this.#params(contextId) });
    return new Context(this.#client, context);
  }

  /** Ends a context with whatever runs in it. Idempotent. */
  async delete(contextId: string, options: CallOptions = {}): Promise<CodeContext> {
    const { context } = await this.#client.call('deleteContext', { ...options, params: this.#params(contextId) });
    return context;
  }

  /** Ids are opaque: the service tells which exist, whatever they look like. */
  #params(contextId: string) {
    return { sandboxId: this.#sandboxId, contextId: contextId as CodeContext['id'] };
  }
}
