import type { Logger } from 'pino';
import { apiKeyRoutes } from '../features/api-keys/api-key-routes.ts';
import { ApiKeyService } from '../features/api-keys/api-key-service.ts';
import { ManageApiKeys } from '../features/api-keys/manage-api-keys.ts';
import type { AuditLog } from '../platform/audit-log/audit-log.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import { Loop } from '../platform/base/loop.ts';
import type { Database } from '../platform/db/database.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';
import { SqlApiKeyRepository } from '../platform/keys/api-key-repository.ts';
import { Authenticator } from '../platform/keys/authenticator.ts';
import { EndKeyWork, KEY_LOOK_MS, type OpenWork } from '../platform/keys/end-key-work.ts';
import { EndedKeys } from '../platform/keys/ended-keys.ts';
import { USES_WRITE_MS } from '../platform/keys/key-uses.ts';
import type { EventOutbox } from '../platform/outbox/event-outbox.ts';
import type { OrgRepository } from '../platform/tenancy/org-repository.ts';
import type { ProjectRepository } from '../platform/tenancy/project-repository.ts';
import { bootstrapApiKey } from './bootstrap-api-key.ts';
import type { Coordination, KeyCacheUse } from './coordination.ts';
import { stopInOrder } from './stop-in-order.ts';

/** Interval of the deletion of ended keys. */
const FORGET_MS = 3_600_000;

export interface ApiKeysDeps extends Pick<Coordination, 'servers' | 'clock' | 'keyCaches'> {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly orgs: OrgRepository;
  readonly projects: ProjectRepository;
  readonly auditLog: AuditLog;
  /** Undefined if the configuration has none. */
  readonly bootstrapKey: string | undefined;
  /** Milliseconds for which the record of an ended key is kept. */
  readonly recordRetentionMs: number;
}

export interface ComposedApiKeys {
  readonly authenticator: Authenticator;
  /** The operations of the operator. */
  readonly service: ApiKeyService;
  /** Composes the parts that use the open work of keys in this server. Call it once. */
  over(open: readonly OpenWork[]): {
    readonly routes: readonly Route[];
    /** Makes the bootstrap key of the configuration valid, and starts the jobs. Call it when this server has its lease. */
    start(): Promise<void>;
  };
  stop(): Promise<void>;
}

/** Composes the keys. */
export async function composeApiKeys(deps: ApiKeysDeps): Promise<ComposedApiKeys> {
  const { db, clock, log, orgs, servers } = deps;
  const keys = new SqlApiKeyRepository(db);
  const cacheUse = deps.keyCaches(() => authenticator.forget());
  const authenticator: Authenticator = new Authenticator(keys, clock, cacheUse);
  const service = new ApiKeyService({ ...deps, keys, authenticator });
  const { id: firstOrgId } = await orgs.ensureFirst();
  let retirement: Loop | undefined;
  let loops: readonly Loop[] = [];
  return {
    authenticator,
    service,
    over(open) {
      const endKeyWork = new EndKeyWork({ keys, authenticator, clock, open });
      return {
        routes: apiKeyRoutes(new ManageApiKeys({ ...deps, keys, authenticator, endKeyWork })),
        async start() {
          retirement = await bootstrapApiKey({ apiKeys: service, servers, log }, firstOrgId, deps.bootstrapKey);
          loops = startLoops({ ...deps, authenticator, endKeyWork, cacheUse });
        },
      };
    },
    async stop() {
      await stopInOrder(
        [
          () => Promise.all(loops.map((loop) => loop.stop())),
          () => retirement?.stop(),
          () => cacheUse.stop(),
          () => authenticator.uses.write(),
        ],
        log,
      );
    },
  };
}

interface LoopsDeps extends ApiKeysDeps {
  readonly authenticator: Authenticator;
  readonly endKeyWork: EndKeyWork;
  readonly cacheUse: KeyCacheUse;
}

/** Starts the jobs that write when keys were used, end the work of ended keys, and delete old records. */
function startLoops(deps: LoopsDeps): Loop[] {
  const { db, transactions, clock, log, authenticator, endKeyWork, cacheUse, recordRetentionMs } = deps;
  const endedKeys = new EndedKeys(db, transactions);
  const write = () => authenticator.uses.write().then(() => USES_WRITE_MS);
  const look = async () => {
    await cacheUse.look();
    await endKeyWork.look();
    return KEY_LOOK_MS;
  };
  const forget = () => endedKeys.forget(clock.now() - recordRetentionMs).then(() => FORGET_MS);
  return [
    new Loop('key uses', write, USES_WRITE_MS, log),
    new Loop('key work', look, KEY_LOOK_MS, log),
    new Loop('ended keys', forget, FORGET_MS, log),
  ];
}
