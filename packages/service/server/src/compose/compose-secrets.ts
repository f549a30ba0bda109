import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Quotas } from '../features/quotas/quotas.ts';
import type { SandboxRepository } from '../features/sandbox-records/sandbox-repository.ts';
import { FindSecretValues } from '../features/secrets/find-secret-values.ts';
import { RotateSecrets } from '../features/secrets/rotate-secrets.ts';
import { SecretKeys, type SecretKeysOptions } from '../features/secrets/secret-keys.ts';
import { SecretRepository } from '../features/secrets/secret-repository.ts';
import { secretRoutes } from '../features/secrets/secret-routes.ts';
import { SecretService } from '../features/secrets/secret-service.ts';
import { buildSecretApp } from '../features/secrets/secret-socket.ts';
import type { ProjectAccess } from '../platform/access/project-access.ts';
import type { Clock } from '../platform/base/clock.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import type { Database } from '../platform/db/database.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';

export interface SecretsDeps {
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly db: Database;
  readonly transactions: Transactions;
  readonly projects: ProjectAccess;
  readonly quotas: Quotas;
  readonly sandboxes: SandboxRepository;
  readonly keyOptions: SecretKeysOptions;
}

export interface Secrets {
  readonly routes: Route[];
  /** The app through which the egress gateway reads the values of secrets. It does not listen yet. */
  readonly app: FastifyInstance;
  readonly rotateSecrets: RotateSecrets;
}

/** Composes the secrets. Reads the keys that encrypt them, and creates the first one. */
export function composeSecrets({ keyOptions, ...deps }: SecretsDeps): Secrets {
  const keys = SecretKeys.open(keyOptions);
  const secrets = new SecretRepository(deps.db, deps.transactions);
  const shared = { ...deps, secrets, keys };
  return {
    routes: secretRoutes(new SecretService(shared)),
    app: buildSecretApp({ ...shared, values: new FindSecretValues(shared) }),
    rotateSecrets: new RotateSecrets(shared),
  };
}
