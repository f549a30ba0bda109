import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Clock } from '../base/clock.ts';
import type { IdSource } from '../base/id-source.ts';
import type { Database } from '../db/database.ts';
import type { Transactions } from '../db/transactions.ts';
import type { Route } from '../http/route.ts';
import type { ProjectAccess } from '../projects/access/project-access.ts';
import type { Quotas } from '../quotas/quotas.ts';
import type { SandboxRepository } from '../sandboxes/record/sandbox-repository.ts';
import { FindSecretValues } from '../secrets/find-secret-values.ts';
import { RotateSecrets } from '../secrets/rotate-secrets.ts';
import { SecretKeys, type SecretKeysOptions } from '../secrets/secret-keys.ts';
import { SecretRepository } from '../secrets/secret-repository.ts';
import { secretRoutes } from '../secrets/secret-routes.ts';
import { SecretService } from '../secrets/secret-service.ts';
import { buildSecretApp } from '../secrets/secret-socket.ts';

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
