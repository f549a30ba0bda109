import type { Operations, QueryOf, UsageRow } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import type { CallOptions } from './request.ts';

export interface ListUsageOptions extends CallOptions {
  /** Beginning of the range. Default: the beginning of the month (UTC). */
  from?: Date | string | undefined;
  /** End of the range. Default: now. */
  to?: Date | string | undefined;
  /** Length of the time that a row stands for. Default: `day`. */
  groupBy?: 'day' | 'hour' | undefined;
  /** Lists the usage of this project instead of that of every project that the key may use. */
  projectId?: string | undefined;
}

/** The usage of the projects. */
export class Usage {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /**
   * Lists what projects used: one row for each project and each day or hour (UTC) in which it used something, oldest
   * first. The range is widened to whole days or hours. For the usage of one sandbox, see `sandbox.usage()`.
   *
   * ```ts
   * const rows = await cloche.usage.list({ from: '2026-01-01', to: '2026-02-01' });
   * const cpuHours = rows.reduce((total, { cpuMs }) => total + cpuMs, 0) / 3_600_000;
   * ```
   */
  async list({ from, to, groupBy, projectId, ...call }: ListUsageOptions = {}): Promise<UsageRow[]> {
    const query: QueryOf<Operations['listUsage']> = {
      ...(from !== undefined && { from: textOf(from) }),
      ...(to !== undefined && { to: textOf(to) }),
      ...(groupBy && { groupBy }),
      // Ids are opaque, so only the service can check them.
      ...(projectId && { projectId }),
    };
    return (await this.#client.call('listUsage', { ...call, query })).data;
  }
}

function textOf(time: Date | string): string {
  return typeof time === 'string' ? time : time.toISOString();
}
