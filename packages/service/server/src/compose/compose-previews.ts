import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { PreviewHosts } from '../features/previews/preview-hosts.ts';
import { SqlPreviewRepository } from '../features/previews/preview-repository.ts';
import { previewRoutes } from '../features/previews/preview-routes.ts';
import { PreviewService } from '../features/previews/preview-service.ts';
import { ExchangeRegistry } from '../features/previews/proxy/exchange-registry.ts';
import { PreviewRouter } from '../features/previews/proxy/preview-router.ts';
import { PREVIEW_LOOK_MS, PreviewsOfServers } from '../features/previews/proxy/previews-of-servers.ts';
import { ReachPort } from '../features/previews/proxy/reach-port.ts';
import { PublicPorts } from '../features/previews/public-ports.ts';
import type { Quotas } from '../features/quotas/quotas.ts';
import type { ProjectAccess } from '../platform/access/project-access.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import type { Database } from '../platform/db/database.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';
import type { OpenWork } from '../platform/keys/end-key-work.ts';
import type { EventOutbox } from '../platform/outbox/event-outbox.ts';
import type { SandboxCore } from './compose-sandboxes.ts';
import type { Coordination } from './coordination.ts';

export interface PreviewsDeps extends Pick<Coordination, 'servers' | 'clock' | 'notifications' | 'watchOthers'> {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly projects: ProjectAccess;
  readonly quotas: Quotas;
  readonly sandboxes: SandboxCore;
  /** Longest wait of a request for a paused sandbox to wake. */
  readonly wakeTimeoutMs: number;
  /** Base URL of the previews; undefined for `http://localhost` at the served port. */
  readonly previewUrl: string | undefined;
  /** Whether the load balancer of this host appends the client's address to `X-Forwarded-For`. */
  readonly isBalanced: boolean;
  /** Whether an Authorization header holds an API key of this service. */
  readonly isApiKey: (authorization: string) => Promise<boolean>;
  readonly ids: IdSource;
  readonly metrics: Registry;
  readonly log: Logger;
}

/** The composed parts of previews. */
export interface Previews {
  readonly routes: Route[];
  readonly hostRouter: PreviewRouter;
  /** Returns the domain below which previews have their hosts, with the port. */
  domain(): string;
  readonly publicPorts: PublicPorts;
  /** The connections through previews. */
  readonly open: OpenWork;
  /** Sets the port of the service. Call it before the first URL is made. */
  servedAt(port: number): void;
  /** Number of requests and WebSockets that pass through previews. */
  connections(): number;
  /** Closes all connections through previews. */
  stop(): Promise<void>;
}

export function composePreviews(deps: PreviewsDeps): Previews {
  const { sandboxes, clock } = deps;
  const hosts = new PreviewHosts(deps.previewUrl);
  const previews = new SqlPreviewRepository({ ...deps, urlOf: (id) => hosts.urlOf(id) });
  const exchanges = new ExchangeRegistry(clock);
  const reachPort = new ReachPort({ ...sandboxes, wakeTimeoutMs: deps.wakeTimeoutMs });
  const ofServers = new PreviewsOfServers({ ...deps, exchanges });
  const disconnect = (id: `prv_${string}`) => ofServers.end(id);
  const looking = deps.watchOthers('previews', () => ofServers.look(), PREVIEW_LOOK_MS);
  const service = new PreviewService({ ...deps, access: sandboxes.access, previews, disconnect });
  const { executions } = sandboxes;
  return {
    routes: previewRoutes(service, hosts),
    hostRouter: new PreviewRouter({ ...deps, hosts, previews, exchanges, reachPort, executions }),
    domain: () => hosts.domain,
    publicPorts: new PublicPorts(deps),
    open: exchanges,
    servedAt: (port) => hosts.servedAt(port),
    connections: () => exchanges.size,
    async stop() {
      await looking.stop();
      exchanges.endAll();
    },
  };
}
