import type { PreviewId } from '@cloche/contract';
import type { Database } from '../../../platform/db/database.ts';
import type { LiveServers } from '../../../platform/db/live-servers.ts';
import type { Notifications } from '../../../platform/db/notifications.ts';
import type { ExchangeRegistry } from './exchange-registry.ts';

/**
 * Interval at which previews that other servers deleted are looked up, so that their connections end within a second.
 */
export const PREVIEW_LOOK_MS = 500;

export interface PreviewsOfServersDeps {
  readonly db: Database;
  readonly notifications: Notifications;
  readonly servers: Pick<LiveServers, 'others'>;
  readonly exchanges: ExchangeRegistry;
}

/** Ends connections of previews that any server has deleted, and divides the limit of connections among the servers. */
export class PreviewsOfServers {
  readonly #deps: PreviewsOfServersDeps;

  constructor(deps: PreviewsOfServersDeps) {
    this.#deps = deps;
    const { notifications, exchanges } = deps;
    const missed = () => {
      // A failed look is repeated by the job.
      this.look().catch(() => undefined);
    };
    // Sound: other servers send ids of previews. An unknown one has no connections.
    notifications.subscribe('preview', { heard: (id) => exchanges.endPreview(id as PreviewId), missed });
  }

  /** Ends the connections through a preview on all servers. Call it after the commit of the deletion. */
  end(id: PreviewId): void {
    this.#deps.exchanges.endPreview(id);
    this.#deps.notifications.send('preview', id);
  }

  /** Ends the connections through previews that were deleted meanwhile. Call it twice a second. */
  async look(): Promise<void> {
    const { db, servers, exchanges } = this.#deps;
    const ids = exchanges.ids();
    if (ids.length === 0) return;
    const deleted = db.selectFrom('previews').select('id').where('id', 'in', ids).where('deleted_at', 'is not', null);
    // Sound: the ids are those of the exchanges.
    for (const { id } of await deleted.execute()) exchanges.endPreview(id as PreviewId);
    exchanges.divideAmong((await servers.others()).size + 1);
  }
}
