import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ApiKeyId } from '@cloche/contract';
import { FakeClock } from '@cloche/testkit';
import { Quotas } from '../src/features/quotas/quotas.ts';
import { RotateSecrets } from '../src/features/secrets/rotate-secrets.ts';
import type { SecretRecord } from '../src/features/secrets/secret.ts';
import { SecretKeys } from '../src/features/secrets/secret-keys.ts';
import { SecretRepository } from '../src/features/secrets/secret-repository.ts';
import { SecretService } from '../src/features/secrets/secret-service.ts';
import { ProjectAccess } from '../src/platform/access/project-access.ts';
import type { RequestAudit } from '../src/platform/audit-log/request-audit.ts';
import { randomIds } from '../src/platform/base/id-source.ts';
import type { Database } from '../src/platform/db/database.ts';
import { type Transaction, Transactions } from '../src/platform/db/transactions.ts';
import type { Credential } from '../src/platform/keys/credential.ts';
import { EventOutbox } from '../src/platform/outbox/event-outbox.ts';
import { SqlProjectRepository } from '../src/platform/tenancy/project-repository.ts';
import { callOf } from './call.ts';
import type { ApiAnswer } from './call-api.ts';
import type { KeyWorld } from './keys.ts';
import { ORG, seed } from './seeded-organizations.ts';
import { openBeside, openTestDatabase } from './test-database.ts';

export const SECRET_VALUE = 'value-of-the-payments-api-7f3a';
export const SECRET_HOSTS = ['api.test', '*.wild.test', '192.0.2.1'];

/** Requests a new secret. `body` replaces fields of the usual one. */
export function createSecret(world: KeyWorld, body: object = {}, idempotencyKey?: string): Promise<ApiAnswer> {
  return world.call('POST', '/v1/secrets', {
    body: { name: 'payments', value: SECRET_VALUE, hosts: SECRET_HOSTS, ...body },
    ...(idempotencyKey && { idempotencyKey }),
  });
}

/** Returns the files and tables of the installation and its log, if they contain a text. */
export async function placesOf(world: KeyWorld, text: string): Promise<string[]> {
  const names = readdirSync(world.folder, { recursive: true, encoding: 'utf8' });
  const files = names.map((name) => join(world.folder, name)).filter((path) => statSync(path).isFile());
  return [
    ...files.filter((path) => readFileSync(path).includes(text)),
    ...(await world.stored.tablesWith(text)),
    ...(world.lines.join().includes(text) ? ['log'] : []),
  ];
}

export type SecretServer = ReturnType<typeof serverOf>;

/** Opens servers of one database that share the file of the keys. On SQLite they also share the connection. */
export async function openSecretServers(count: number) {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-secrets-'));
  const keyFile = join(folder, 'secrets-key');
  const db = await openTestDatabase();
  await seed(db);
  const databases = [db];
  while (databases.length < count) databases.push(await openBeside(db));
  return {
    db,
    servers: databases.map((own) => serverOf(own, keyFile)),
    newKeys: () => SecretKeys.open({ setting: undefined, file: keyFile }),
    countKeys: () => readFileSync(keyFile, 'utf8').trim().split('\n').length,
    async [Symbol.asyncDispose](): Promise<void> {
      // The first one made the database, which the others use.
      for (const own of new Set(databases.toReversed())) await own.destroy();
      rmSync(folder, { recursive: true });
    },
  };
}

/** Transactions that wait before they begin, if `isPaused`. */
class PausedTransactions extends Transactions {
  readonly stands = Promise.withResolvers<void>();
  readonly goOn = Promise.withResolvers<void>();
  isPaused = false;

  override async run<T>(act: (tx: Transaction) => Promise<T>, joined?: Transaction): Promise<T> {
    if (this.isPaused && !joined) {
      this.stands.resolve();
      await this.goOn.promise;
    }
    return super.run(act, joined);
  }
}

function serverOf(db: Database, keyFile: string) {
  const [clock, transactions, writing] = [new FakeClock(), new Transactions(db), new PausedTransactions(db)];
  const outbox = new EventOutbox(db, clock, randomIds);
  const quotas = new Quotas({ db, transactions: writing, outbox, clock, defaults: {} });
  const projects = new ProjectAccess(new SqlProjectRepository(db));
  const keys = SecretKeys.open({ setting: undefined, file: keyFile });
  const secrets = new SecretRepository(db, writing);
  const service = new SecretService({ transactions: writing, secrets, keys, projects, quotas, clock, ids: randomIds });
  const rotation = new RotateSecrets({ transactions, secrets, keys });
  const credential: Credential = {
    apiKeyId: 'key_1' as ApiKeyId,
    orgId: ORG,
    scopes: new Set(),
    projectIds: undefined,
  };
  return {
    db,
    keys,
    secrets,
    /** Those of requests, not of rotations. */
    writing,
    rotate: () => rotation.rotate(async () => undefined),
    create(value: string, audit?: RequestAudit): Promise<SecretRecord> {
      const body = { name: 'secret', value, hosts: SECRET_HOSTS };
      return service.create(callOf({ credential, audit }), body);
    },
    update: (id: string, value: string, audit?: RequestAudit) =>
      service.update(callOf({ credential, audit }), id, { value }),
    /** Returns the values of all secrets, as `keys` decrypts them, sorted. */
    async values(opening = keys): Promise<string[]> {
      const found = await transactions.run((tx) => secrets.page('', 1000, tx));
      return found.map(({ id, value }) => opening.open(value, id)).sort();
    },
  };
}
