import type { OrgId } from '@cloche/contract';
import type { Logger } from 'pino';
import type { ApiKeyService } from '../api-keys/api/api-key-service.ts';
import { Loop } from '../base/loop.ts';
import type { LiveServers } from '../db/live-servers.ts';

/** How often a server looks whether the servers before it have ended. */
const LOOK_MS = 10_000;
/** Interval of looks once nothing is left to do. */
const DONE_MS = 3_600_000;

/**
 * Makes `key` the bootstrap key. Earlier ones work until every server has ended that was there before: in a rolling change
 * of the key, clients of the remaining servers use the old one. Returns the job that waits for that, if there is anything to
 * wait for; the caller stops it.
 */
export async function bootstrapApiKey(
  { apiKeys, servers, log }: { apiKeys: ApiKeyService; servers: LiveServers; log: Logger },
  orgId: OrgId,
  key: string | undefined,
  lookMs = LOOK_MS,
): Promise<Loop | undefined> {
  const earlierKeys = await apiKeys.addBootstrap(orgId, key);
  const earlierServers = await servers.others();
  if (earlierKeys.length === 0 || earlierServers.size === 0) {
    await apiKeys.revokeBootstrap(earlierKeys);
    return undefined;
  }
  const retire = async () => {
    const others = await servers.others();
    if ([...earlierServers].some((id) => others.has(id))) return lookMs;
    await apiKeys.revokeBootstrap(earlierKeys);
    return DONE_MS;
  };
  return new Loop('retire bootstrap keys', retire, lookMs, log);
}
