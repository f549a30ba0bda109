import type { CreateSandboxBody, Operations, QueryOf, SandboxId, SandboxStatus } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import type { CallOptions } from './request.ts';
import { Sandbox } from './sandbox.ts';

export interface ListSandboxesOptions extends CallOptions {
  /** Exact labels, all of which must hold. */
  metadata?: Record<string, string> | undefined;
  projectId?: string | undefined;
  status?: SandboxStatus | undefined;
  /** `historical` adds destroyed and failed ones. */
  include?: 'historical' | undefined;
}

/** The sandboxes that the key can see. */
export class Sandboxes {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /** Answers while it is still `creating`; runs and contexts may be sent at once and wait for it. */
  async create(body: CreateSandboxBody = {}, options: CallOptions = {}): Promise<Sandbox> {
    const { sandbox } = await this.#client.call('createSandbox', { ...options, body });
    return new Sandbox(this.#client, sandbox);
  }

  /** The live ones, newest first. */
  async list(options: ListSandboxesOptions = {}): Promise<Sandbox[]> {
    const { metadata = {}, projectId, status, include, ...callOptions } = options;
    const labels = Object.entries(metadata).map(([key, value]) => [`metadata.${key}`, value]);
    const query: QueryOf<Operations['listSandboxes']> = {
      ...(projectId === undefined ? {} : { projectId }),
      ...(status === undefined ? {} : { status }),
      ...(include === undefined ? {} : { include }),
      ...Object.fromEntries(labels),
    };
    const { data } = await this.#client.call('listSandboxes', { ...callOptions, query });
    return data.map((sandbox) => new Sandbox(this.#client, sandbox));
  }

  /** Also a destroyed one. @throws {ClocheError} `not_found`. */
  async get(sandboxId: string, options: CallOptions = {}): Promise<Sandbox> {
    // Ids are opaque: the service tells which exist, whatever they look like.
    const params = { sandboxId: sandboxId as SandboxId };
    const { sandbox } = await this.#client.call('getSandbox', { ...options, params });
    return new Sandbox(this.#client, sandbox);
  }
}
