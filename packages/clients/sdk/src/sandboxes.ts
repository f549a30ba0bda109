import type {
  CreateSandboxBody,
  CurrentSandboxMetrics,
  GetOrCreateSandboxBody,
  Operations,
  QueryOf,
  SandboxId,
  SandboxStatus,
} from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { labelQuery, type PagedList, pagedList, type SelectionOptions } from './paged-list.ts';
import type { CallOptions } from './request.ts';
import { Sandbox } from './sandbox.ts';

export interface ListSandboxesOptions extends SelectionOptions {
  /** Labels that the sandbox must have, all of them. */
  metadata?: Record<string, string> | undefined;
  projectId?: string | undefined;
  status?: SandboxStatus | undefined;
  paused?: boolean | undefined;
  /** `historical` also lists destroyed and failed sandboxes. */
  include?: 'historical' | undefined;
  name?: string | undefined;
}

export interface ByNameOptions extends CallOptions {
  /** Default: the default project of the organization. */
  projectId?: string | undefined;
}

export interface ListMetricsOptions extends CallOptions {
  projectId?: string | undefined;
  /** Most sandboxes, at most 500. Default: 100. */
  limit?: number | undefined;
}

/** The sandboxes that the key can see. */
export class Sandboxes {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /** Returns while the sandbox is still `creating`; operations sent at once wait until it is ready. */
  async create(body: CreateSandboxBody = {}, options: CallOptions = {}): Promise<Sandbox> {
    const { sandbox } = await this.#client.call('createSandbox', { ...options, body });
    return new Sandbox(this.#client, sandbox);
  }

  /**
   * Returns the sandbox that has the name, as it is, or creates it with the body. `created` says which.
   * @throws {ClocheError} `conflict` if there is one that differs from the body: `details.differs` names the fields.
   */
  async getOrCreate(
    name: string,
    body: GetOrCreateSandboxBody = {},
    options: CallOptions = {},
  ): Promise<{ sandbox: Sandbox; created: boolean }> {
    const request = { ...options, params: { name }, body };
    const { sandbox, created } = await this.#client.call('getOrCreateSandbox', request);
    return { sandbox: new Sandbox(this.#client, sandbox), created };
  }

  /** Returns the sandbox that has the name and has not ended. @throws {ClocheError} `not_found`. */
  async getByName(name: string, { projectId, ...options }: ByNameOptions = {}): Promise<Sandbox> {
    const query = projectId === undefined ? {} : { projectId };
    const { sandbox } = await this.#client.call('getSandboxByName', { ...options, params: { name }, query });
    return new Sandbox(this.#client, sandbox);
  }

  /** Lists sandboxes, newest first. By default, destroyed and failed ones are left out. */
  list(options: ListSandboxesOptions = {}): PagedList<Sandbox> {
    const { metadata, projectId, status, paused, include, name, ...call } = options;
    const query = { projectId, status, paused, include, name, ...labelQuery(metadata) };
    return pagedList(this.#client, 'listSandboxes', { ...call, query }, (info) => new Sandbox(this.#client, info));
  }

  /**
   * Measures the newest sandboxes that are ready, all in one request. `hasMore` says whether there are more than
   * `limit`.
   */
  metrics(options: ListMetricsOptions = {}): Promise<{ data: CurrentSandboxMetrics[]; hasMore: boolean }> {
    const { projectId, limit, ...callOptions } = options;
    const query: QueryOf<Operations['listSandboxMetrics']> = {
      ...(projectId === undefined ? {} : { projectId }),
      ...(limit === undefined ? {} : { limit }),
    };
    return this.#client.call('listSandboxMetrics', { ...callOptions, query });
  }

  /** Also returns a destroyed sandbox. @throws {ClocheError} `not_found`. */
  async get(sandboxId: string, options: CallOptions = {}): Promise<Sandbox> {
    // Ids are opaque, so only the service can check them.
    const params = { sandboxId: sandboxId as SandboxId };
    const { sandbox } = await this.#client.call('getSandbox', { ...options, params });
    return new Sandbox(this.#client, sandbox);
  }
}
