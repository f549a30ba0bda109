import type { OrgId } from '@cloche/contract';
import type { Logger } from 'pino';
import type { ApiKeyService } from '../features/api-keys/api-key-service.ts';
import { Loop } from '../platform/base/loop.ts';
import type { LiveServers } from '../platform/db/live-servers.ts';

/** Interval at which a server checks whether the servers that were running at its start have ended. */
const LOOK_MS = 10_000;
/** Interval of the checks when nothing is left to do. */
const DONE_MS = 3_600_000;

/**
 * Makes `key` the bootstrap key. Earlier bootstrap keys stay valid until every server that is running now has ended:
 * while servers are restarted one after another with a new key, clients of the others still use the old one. If a server
 * is started with an earlier key again, as in a rollback, the earlier keys stay valid until every server that runs at
 * that time has ended. Returns the job that then revokes the earlier keys, or undefined if nothing is left to revoke.
 * The caller stops the job.
 *
 * Call it when this server has its lease: others wait only for servers that have one.
 */
export async function bootstrapApiKey(
  { apiKeys, servers, log }: { apiKeys: ApiKeyService; servers: LiveServers; log: Logger },
  orgId: OrgId,
  key: string | undefined,
  lookMs = LOOK_MS,
): Promise<Loop | undefined> {
  const { earlier, revoked } = await apiKeys.addBootstrap(orgId, key);
  if (revoked)
    log.warn({ apiKeyId: revoked }, 'the key in CLOCHE_BOOTSTRAP_API_KEY was revoked and stays so; choose another');
  let earlierKeys = earlier;
  let earlierServers = await servers.others();
  if (earlierKeys.length === 0 || earlierServers.size === 0) {
    await apiKeys.revokeBootstrap(earlierKeys);
    return undefined;
  }
  const retire = async () => {
    // Read before the servers: a server has its lease before it makes a key its own.
    const left = await apiKeys.listBootstrap(earlierKeys);
    const others = await servers.others();
    if (left.length === 0) return DONE_MS;
    const isSame = left.every(({ id, createdAt }) =>
      earlierKeys.some((key) => key.id === id && key.createdAt === createdAt),
    );
    if (!isSame) [earlierKeys, earlierServers] = [left, others];
    if (![...earlierServers].some((id) => others.has(id))) await apiKeys.revokeBootstrap(earlierKeys);
    return lookMs;
  };
  return new Loop('retire bootstrap keys', retire, lookMs, log);
}
