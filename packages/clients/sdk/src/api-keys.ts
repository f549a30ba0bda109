import type { ApiKey, ApiKeyId, CreateApiKeyBody, Organization, Project } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { type PagedList, type PageOptions, pagedList } from './paged-list.ts';
import type { CallOptions } from './request.ts';

export interface CreateApiKeyOptions extends CallOptions {
  name: string;
  /** Permissions, such as `code:run`; `*` for all. The calling key must have each of them. */
  scopes: CreateApiKeyBody['scopes'];
  /** The only projects that the key may use. Default: every project of the organization. */
  projectIds?: readonly string[] | undefined;
  /** Default: never. */
  expiresAt?: Date | undefined;
}

/** A key and its secret, which cannot be shown again. */
export interface ApiKeyWithSecret {
  apiKey: ApiKey;
  secret: string;
}

/** The calling key, its organization, and the project that it uses by default. */
export interface CurrentApiKey {
  apiKey: ApiKey;
  organization: Organization;
  project: Project;
}

/** The API keys of the organization, as far as the calling key may see them. */
export class ApiKeys {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /**
   * Creates a key. Only this response has its secret.
   *
   * ```ts
   * const { secret } = await cloche.apiKeys.create({ name: 'ci', scopes: ['sandbox:create', 'code:run'] });
   * ```
   */
  create(options: CreateApiKeyOptions): Promise<ApiKeyWithSecret> {
    const { name, scopes, projectIds, expiresAt, ...call } = options;
    const body: CreateApiKeyBody = {
      name,
      scopes,
      // Ids are opaque, so only the service can check them.
      ...(projectIds === undefined ? {} : { projectIds: projectIds as CreateApiKeyBody['projectIds'] & object }),
      ...(expiresAt === undefined ? {} : { expiresAt: expiresAt.toISOString() }),
    };
    return this.#client.call('createApiKey', { ...call, body });
  }

  /** Lists keys, newest first; with `includeRevoked` also those that were revoked or have expired. */
  list({ includeRevoked, ...call }: PageOptions & { includeRevoked?: boolean } = {}): PagedList<ApiKey> {
    return pagedList(this.#client, 'listApiKeys', { ...call, query: includeRevoked ? { include: 'revoked' } : {} });
  }

  async get(apiKeyId: string, options: CallOptions = {}): Promise<ApiKey> {
    return (await this.#client.call('getApiKey', { ...options, params: paramsOf(apiKeyId) })).apiKey;
  }

  /** Returns the calling key. Needs no scope. */
  current(options: CallOptions = {}): Promise<CurrentApiKey> {
    return this.#client.call('getCurrentApiKey', options);
  }

  /**
   * Creates a successor with the same name, scopes, projects and expiry. The old key works for `graceMs` milliseconds
   * more. Default: a day.
   */
  rotate(apiKeyId: string, { graceMs, ...call }: CallOptions & { graceMs?: number } = {}): Promise<ApiKeyWithSecret> {
    const body = graceMs === undefined ? {} : { graceMs };
    return this.#client.call('rotateApiKey', { ...call, params: paramsOf(apiKeyId), body });
  }

  /** Revokes a key and ends what is open for it. Idempotent. */
  async revoke(apiKeyId: string, options: CallOptions = {}): Promise<ApiKey> {
    return (await this.#client.call('revokeApiKey', { ...options, params: paramsOf(apiKeyId) })).apiKey;
  }
}

function paramsOf(apiKeyId: string): { apiKeyId: ApiKeyId } {
  // Ids are opaque, so only the service can check them.
  return { apiKeyId: apiKeyId as ApiKeyId };
}
