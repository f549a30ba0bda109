import {
  type CreateSecretBody,
  hostEntryIssues,
  ID_PREFIXES,
  LIMITS,
  type Secret,
  type UpdateSecretBody,
} from '@cloche/contract';
import { type ProjectAccess, requireProject } from '../../platform/access/project-access.ts';
import { AppError, invalidRequest, notFound } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Call } from '../../platform/call/call.ts';
import { type List, newestFirst } from '../../platform/db/list.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import { lockOrganization } from '../../platform/tenancy/lock-organization.ts';
import type { Quotas } from '../quotas/quotas.ts';
import { keepKeys } from './key-locks.ts';
import { type SecretRecord, toSecret } from './secret.ts';
import type { SecretKeys } from './secret-keys.ts';
import type { SecretRepository } from './secret-repository.ts';

export interface SecretServiceDeps {
  readonly transactions: Transactions;
  readonly secrets: SecretRepository;
  readonly keys: SecretKeys;
  readonly projects: ProjectAccess;
  readonly quotas: Quotas;
  readonly clock: Clock;
  readonly ids: IdSource;
}

/** Creates, shows, changes and deletes secrets. It encrypts values and never decrypts one. */
export class SecretService {
  readonly #deps: SecretServiceDeps;

  constructor(deps: SecretServiceDeps) {
    this.#deps = deps;
  }

  /**
   * Creates one secret per idempotency record.
   *
   * @throws AppError `invalid_request` for wrong hosts, `not_found` or `forbidden` for the project, `quota_exceeded`
   */
  async create({ credential, idempotency, audit }: Call, body: CreateSecretBody): Promise<SecretRecord> {
    const { secrets, projects, quotas, ids, clock } = this.#deps;
    const hosts = checkedHosts(body.hosts);
    const { orgId } = credential;
    const idempotencyRecordId = idempotency?.recordId;
    const projectId = await projects.forCreation(credential, body.projectId);
    const id = ids.next(ID_PREFIXES.secret);
    const inserted = await quotas.admit({ orgId, projectId }, async (tx, requireRoom) => {
      // Every transaction takes the lock of the organization first.
      await lockOrganization(tx, orgId);
      const value = await this.#seal(body.value, id, tx);
      const secret = { id, orgId, projectId, name: body.name, hosts, value, idempotencyRecordId };
      const room = () => requireRoom({ secrets: 1 });
      const options = { limit: LIMITS.secretsPerOrganization, now: clock.now(), requireRoom: room };
      const insertion = await secrets.insert(secret, options, tx);
      if (insertion.status === 'inserted') await audit?.append(tx, secret);
      return insertion;
    });
    if (inserted.status === 'full') throw tooMany(inserted.used);
    return inserted.row;
  }

  /** Opens the list of the secrets that the key may see, newest first. */
  async list({ credential }: Call, projectId: string | undefined): Promise<List<SecretRecord, Secret>> {
    const projectIds = await this.#deps.projects.listed(credential, projectId);
    return newestFirst((part) => this.#deps.secrets.list(credential.orgId, projectIds, part), toSecret);
  }

  /** Returns a secret, also a deleted one. @throws AppError `not_found`, `forbidden` */
  async get({ credential }: Call, id: string): Promise<SecretRecord> {
    const secret = await this.#deps.secrets.find(credential.orgId, id);
    if (!secret) throw notFound('secret', id);
    requireProject(credential, secret.projectId, `project of the secret "${id}"`);
    return secret;
  }

  /** Sets the given fields. @throws AppError `not_found`, also for a deleted secret; `forbidden`, `invalid_request` */
  async update(call: Call, id: string, body: UpdateSecretBody): Promise<SecretRecord> {
    const { transactions, secrets, clock } = this.#deps;
    const hosts = body.hosts && checkedHosts(body.hosts);
    const secret = await this.get(call, id);
    const updated = await transactions.run(async (tx) => {
      const value = body.value === undefined ? undefined : await this.#seal(body.value, secret.id, tx);
      const before = await secrets.lock(secret.id, tx);
      if (!before) return undefined;
      // SECURITY: otherwise, a key that may only write secrets would send their values to a host of its own, and so read
      // them; "is not sent to a further host" in secret-operations.test.ts.
      if (hosts && value === undefined) requireListed(hosts, before.hosts);
      return secrets.update(call, before, { value, hosts, now: clock.now() }, tx);
    });
    if (!updated) throw new AppError('not_found', `The secret "${id}" is deleted; create another one.`);
    return updated;
  }

  /** Idempotent. @throws AppError `not_found`, `forbidden` */
  async delete(call: Call, id: string): Promise<SecretRecord> {
    const secret = await this.get(call, id);
    await this.#deps.secrets.delete(call, secret.id, this.#deps.clock.now());
    return this.get(call, id);
  }

  /** Encrypts a value for a row that `tx` writes. The key is kept at least until the end of `tx`. */
  async #seal(value: string, id: string, tx: Transaction): Promise<string> {
    await keepKeys(tx);
    return this.#deps.keys.seal(value, id);
  }
}

/** @throws AppError `invalid_request` */
function checkedHosts(hosts: readonly string[]): string[] {
  const [first, ...others] = hostEntryIssues(hosts).map(({ path, message }) => ({
    path: `body.hosts.${path}`,
    message,
  }));
  if (first) throw invalidRequest(first, ...others);
  return [...new Set(hosts)];
}

/** @throws AppError `invalid_request` unless `listed` has each of `hosts` */
function requireListed(hosts: readonly string[], listed: readonly string[]): void {
  const index = hosts.findIndex((host) => !listed.includes(host));
  if (index < 0) return;
  const message = 'is not a host of the secret yet; send its value in the same request';
  throw invalidRequest({ path: `body.hosts.${index}`, message });
}

function tooMany(used: number): AppError {
  const limit = LIMITS.secretsPerOrganization;
  const message = `The organization has ${used} secrets, and its limit is ${limit}; delete some first.`;
  return new AppError('quota_exceeded', message, { details: { quota: 'secrets', limit, used } });
}
