import type { CreateSecretBody, Secret, SecretId, UpdateSecretBody } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { type PagedList, type PageOptions, pagedList } from './paged-list.ts';
import type { CallOptions } from './request.ts';

export interface CreateSecretOptions extends CallOptions {
  /** The value. No response has it. */
  value: string;
  /** The hosts that receive the value, such as `api.example.com` or `*.example.com`. */
  hosts: readonly string[];
  /** Default: the default project of the organization. */
  projectId?: string | undefined;
}

export interface UpdateSecretOptions extends CallOptions {
  value?: string | undefined;
  hosts?: readonly string[] | undefined;
}

/** The secrets that the key can see, without their values. */
export class Secrets {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /**
   * Creates a secret. Sandboxes that are created with it send its value to its hosts, and never have it themselves.
   *
   * ```ts
   * const secret = await cloche.secrets.create('payments', { value, hosts: ['api.example.com'] });
   * const sandbox = await cloche.sandboxes.create({ secrets: { PAYMENTS_API_KEY: secret.id } });
   * ```
   */
  async create(name: string, { value, hosts, projectId, ...call }: CreateSecretOptions): Promise<Secret> {
    const body: CreateSecretBody = {
      name,
      value,
      hosts: [...hosts],
      ...(projectId === undefined ? {} : { projectId }),
    };
    return (await this.#client.call('createSecret', { ...call, body })).secret;
  }

  /** Lists the secrets that are not deleted, newest first. */
  list({ projectId, ...call }: PageOptions & { projectId?: string | undefined } = {}): PagedList<Secret> {
    return pagedList(this.#client, 'listSecrets', { ...call, query: { projectId } });
  }

  async get(secretId: string, options: CallOptions = {}): Promise<Secret> {
    return (await this.#client.call('getSecret', { ...options, params: paramsOf(secretId) })).secret;
  }

  /**
   * Sets the given fields. They are in force for requests that sandboxes begin afterwards. A host that the secret does
   * not list yet needs `value` too.
   */
  async update(secretId: string, { value, hosts, ...call }: UpdateSecretOptions): Promise<Secret> {
    const body: UpdateSecretBody = {
      ...(value === undefined ? {} : { value }),
      ...(hosts === undefined ? {} : { hosts: [...hosts] }),
    };
    return (await this.#client.call('updateSecret', { ...call, params: paramsOf(secretId), body })).secret;
  }

  /** Deletes a secret and its value. Idempotent. */
  async delete(secretId: string, options: CallOptions = {}): Promise<Secret> {
    return (await this.#client.call('deleteSecret', { ...options, params: paramsOf(secretId) })).secret;
  }
}

function paramsOf(secretId: string): { secretId: SecretId } {
  // Ids are opaque, so only the service can check them.
  return { secretId: secretId as SecretId };
}
