import type { Operations, QueryOf, QuotaUse } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import type { CallOptions } from './request.ts';

export interface ListQuotasOptions extends CallOptions {
  /** Lists the quotas of this project instead of those of everything that the key may use. */
  projectId?: string | undefined;
}

/** The quotas of the organization and of its projects. */
export class Quotas {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /**
   * Lists every quota with its limit (`null`: no limit) and its use. Without `projectId`, a key of the whole
   * organization gets the quotas of the organization. A key that is bound to projects gets the quotas of these
   * projects.
   *
   * ```ts
   * const quotas = await cloche.quotas.list();
   * const { limit, used } = quotas.find(({ quota }) => quota === 'liveSandboxes')!;
   * ```
   */
  async list({ projectId, ...call }: ListQuotasOptions = {}): Promise<QuotaUse[]> {
    // Ids are opaque, so only the service can check them.
    const query: QueryOf<Operations['listQuotas']> = projectId ? { projectId } : {};
    return (await this.#client.call('listQuotas', { ...call, query })).data;
  }
}
