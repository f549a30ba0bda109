import type { CodeContext, CreateContextBody, Language } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { Context } from './context.ts';
import { type PagedList, type PageOptions, pagedList } from './paged-list.ts';
import type { CallOptions } from './request.ts';

export interface CreateContextOptions extends Omit<CallOptions, 'timeoutMs'> {
  /** Default: `python`. */
  language?: Language | undefined;
  /** Default: `/workspace`. */
  cwd?: string | undefined;
  /** Time limit of the creation in milliseconds. Default: 30000. If given, also the default `timeoutMs` of runs. */
  timeoutMs?: number | undefined;
}

/** The contexts of a sandbox. */
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

  /** Lists active contexts, oldest first. */
  list(options: PageOptions = {}): PagedList<Context> {
    const params = { sandboxId: this.#sandboxId };
    return pagedList(this.#client, 'listContexts', { ...options, params }, (info) => new Context(this.#client, info));
  }

  /** @throws {ClocheError} `not_found`, also for a deleted context. */
  async get(contextId: string, options: CallOptions = {}): Promise<Context> {
    const { context } = await this.#client.call('getContext', { ...options, params: this.#params(contextId) });
    return new Context(this.#client, context);
  }

  /** Deletes a context and ends its runs. Idempotent. */
  async delete(contextId: string, options: CallOptions = {}): Promise<CodeContext> {
    const { context } = await this.#client.call('deleteContext', { ...options, params: this.#params(contextId) });
    return context;
  }

  /** Casts the id. Ids are opaque, so only the service can check them. */
  #params(contextId: string) {
    return { sandboxId: this.#sandboxId, contextId: contextId as CodeContext['id'] };
  }
}
