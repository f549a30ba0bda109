import {
  ALL_SCOPES,
  type ApiKeyEventType,
  type ApiKeyId,
  ID_PREFIXES,
  isScope,
  type OrgId,
  type ProjectId,
  type Scope,
} from '@cloche/contract';
import type { AuditLog } from '../../platform/audit-log/audit-log.ts';
import { AppError, invalidRequest } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import { type ApiKeyRecord, BOOTSTRAP_PREFIX, OPERATOR, toApiKey } from '../../platform/keys/api-key.ts';
import { hashApiKey, makeApiKey, parseApiKey } from '../../platform/keys/api-key-format.ts';
import type { ApiKeyRepository } from '../../platform/keys/api-key-repository.ts';
import type { Authenticator } from '../../platform/keys/authenticator.ts';
import { type ChosenKeyHash, findHashOfChosenKey, hashChosenKey } from '../../platform/keys/chosen-key-hash.ts';
import type { EventOutbox } from '../../platform/outbox/event-outbox.ts';
import { lockOrganization } from '../../platform/tenancy/lock-organization.ts';
import type { ProjectRepository } from '../../platform/tenancy/project-repository.ts';

const OPERATOR_ACTOR = { type: 'operator', id: OPERATOR } as const;

export interface NewApiKey {
  readonly orgId: OrgId;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly projectIds?: readonly string[] | undefined;
  readonly expiresInMs?: number | undefined;
}

/** A bootstrap key as a server found it. */
export type BootstrapKey = Pick<ApiKeyRecord, 'id' | 'createdAt'>;

export interface AddedBootstrap {
  /** The other bootstrap keys, which other running servers may have in their settings. */
  readonly earlier: BootstrapKey[];
  /** Id of the key, if it does not work because the API or the operator revoked it. */
  readonly revoked: ApiKeyId | undefined;
}

export interface ApiKeyServiceDeps {
  readonly keys: ApiKeyRepository;
  readonly projects: ProjectRepository;
  readonly authenticator: Authenticator;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly auditLog: AuditLog;
  readonly clock: Clock;
  readonly ids: IdSource;
}

/** Creates and revokes keys for the operator, and appends the events of these changes. */
export class ApiKeyService {
  readonly #deps: ApiKeyServiceDeps;

  constructor(deps: ApiKeyServiceDeps) {
    this.#deps = deps;
  }

  /**
   * Creates a key. `secret` is the key itself, which cannot be shown again.
   *
   * @param requestId id of the operator's request, for the audit log
   * @throws AppError for an unknown scope or project.
   */
  async create(wanted: NewApiKey, requestId?: string): Promise<{ apiKey: ApiKeyRecord; secret: string }> {
    const { keys, clock, ids } = this.#deps;
    const scopes = checkedScopes(wanted.scopes);
    const projectIds = wanted.projectIds && (await this.#checkedProjects(wanted.orgId, wanted.projectIds));
    const { key, publicPart } = makeApiKey();
    const now = clock.now();
    const apiKey: ApiKeyRecord = {
      id: ids.next(ID_PREFIXES.apiKey),
      orgId: wanted.orgId,
      name: wanted.name,
      publicPart,
      secretHash: hashApiKey(key),
      scopes,
      projectIds,
      createdAt: now,
      createdBy: OPERATOR,
      lastUsedAt: undefined,
      expiresAt: wanted.expiresInMs === undefined ? undefined : now + wanted.expiresInMs,
      revokedAt: undefined,
      rotatedFrom: undefined,
    };
    const inserted = await this.#deps.transactions.run(async (tx) => {
      const stored = await keys.insert(apiKey, tx);
      await this.#append(tx, 'api_key.created', stored, requestId);
      return stored;
    });
    return { apiKey: inserted, secret: key };
  }

  /** Creates the first key, with every scope. Throws `conflict` when any key exists. */
  async createFirst(orgId: OrgId, requestId?: string): Promise<{ apiKey: ApiKeyRecord; secret: string }> {
    if (await this.#deps.keys.any())
      throw new AppError('conflict', 'An API key already exists; create another one by name.');
    return this.create({ orgId, name: 'first', scopes: [ALL_SCOPES] }, requestId);
  }

  /**
   * Makes `key` the only bootstrap key, with every scope, and revokes earlier ones. Without `key`, revokes all of them.
   * Idempotent.
   */
  async bootstrap(orgId: OrgId, key: string | undefined): Promise<void> {
    await this.revokeBootstrap((await this.addBootstrap(orgId, key)).earlier);
  }

  /**
   * Makes `key` a bootstrap key with every scope, unless it is one already. Several servers that call this at the same
   * time create one key. If there are other bootstrap keys, `key` counts as created now, so that a server that found it
   * among the others does not revoke it. A key that was revoked, other than by `revokeBootstrap`, stays revoked.
   */
  async addBootstrap(orgId: OrgId, key: string | undefined): Promise<AddedBootstrap> {
    const { keys, transactions, authenticator } = this.#deps;
    const chosen = key !== undefined && parseApiKey(key).kind !== 'generated' ? key : undefined;
    for (;;) {
      const found = await keys.listCurrent(BOOTSTRAP_PREFIX);
      const known = chosen === undefined ? undefined : await findHashAmong(found, chosen);
      const hash = known ?? (chosen === undefined ? undefined : await hashChosenKey(chosen));
      const kept = hash?.stored ?? (key === undefined ? undefined : hashApiKey(key));
      const seen = statesOf(found);
      const made = await transactions.run(async (tx): Promise<Pick<AddedBootstrap, 'revoked'> | undefined> => {
        await lockOrganization(tx, orgId);
        // Another server has changed the keys since they were read.
        const current = await keys.listCurrent(BOOTSTRAP_PREFIX, tx);
        if (statesOf(current) !== seen) return undefined;
        const own = current.find(({ secretHash }) => secretHash === kept);
        if (own?.revokedAt !== undefined) return { revoked: own.id };
        const isAlone = current.filter(isValid).length === 1;
        if (own) return isAlone || (await keys.renew(own.id, this.#laterThan(own), tx)) ? NOT_REVOKED : undefined;
        if (hash) await this.#insertBootstrap(orgId, hash.stored, undefined, tx);
        else if (key !== undefined) return { revoked: await this.#ensureGenerated(orgId, key, tx) };
        return NOT_REVOKED;
      });
      if (!made) continue;
      authenticator.acceptChosen(chosen !== undefined && hash ? { key: chosen, hash } : undefined);
      authenticator.forget();
      return { ...made, earlier: found.filter((each) => isValid(each) && each.secretHash !== kept) };
    }
  }

  /** Returns those of the bootstrap keys that are valid, as they are now. */
  async listBootstrap(keys: readonly BootstrapKey[]): Promise<BootstrapKey[]> {
    const found = await this.#deps.keys.listCurrent(BOOTSTRAP_PREFIX);
    return found.filter((each) => isValid(each) && keys.some(({ id }) => id === each.id));
  }

  /**
   * Revokes bootstrap keys that no server uses any more, but none that a server was started with since `addBootstrap`
   * returned it. Idempotent.
   */
  async revokeBootstrap(earlier: readonly BootstrapKey[]): Promise<void> {
    const { keys, authenticator } = this.#deps;
    for (const key of earlier) await this.#supersede(key);
    await keys.forgetChosenKeys();
    if (earlier.length > 0) await authenticator.forgetEverywhere();
  }

  /**
   * Revokes a key of any organization. Idempotent.
   *
   * @param requestId id of the operator's request, for the audit log
   * @throws AppError `not_found`
   */
  async revoke(id: ApiKeyId, requestId?: string): Promise<void> {
    const { keys, clock, authenticator } = this.#deps;
    const revokedNow = await this.#revoke(id, requestId);
    await authenticator.forgetEverywhere();
    if (revokedNow || (await keys.listEnded([id], clock.now())).length > 0) return;
    throw new AppError('not_found', `There is no API key "${id.slice(0, 80)}".`);
  }

  /** Returns whether this call revoked the key, as opposed to an earlier one. */
  #revoke(id: ApiKeyId, requestId: string | undefined): Promise<boolean> {
    const { keys, clock } = this.#deps;
    return this.#deps.transactions.run(async (tx) => {
      const revoked = await keys.revoke(id, clock.now(), tx);
      if (revoked) await this.#append(tx, 'api_key.revoked', revoked, requestId);
      return revoked !== undefined;
    });
  }

  async #supersede({ id, createdAt }: BootstrapKey): Promise<void> {
    const { keys, clock } = this.#deps;
    await this.#deps.transactions.run(async (tx) => {
      const superseded = await keys.supersede(id, createdAt, clock.now(), tx);
      if (superseded) await this.#append(tx, 'api_key.revoked', superseded);
    });
  }

  /** Returns the id of the key if it was revoked, other than by another key in the settings. */
  async #ensureGenerated(orgId: OrgId, key: string, tx: Transaction): Promise<ApiKeyId | undefined> {
    const secretHash = hashApiKey(key);
    const existing = await this.#deps.keys.findBySecretHash(secretHash, tx);
    if (existing)
      return existing.revokedAt === undefined || (await this.#restore(existing, tx)) ? undefined : existing.id;
    const parsed = parseApiKey(key);
    await this.#insertBootstrap(orgId, secretHash, parsed.kind === 'generated' ? parsed.publicPart : undefined, tx);
    return undefined;
  }

  /** Makes a superseded key valid again. For clients it is a new key. Returns false for any other key. */
  async #restore(key: ApiKeyRecord, tx: Transaction): Promise<boolean> {
    const createdAt = this.#laterThan(key);
    const isRestored = await this.#deps.keys.restore(key.id, createdAt, tx);
    if (isRestored) await this.#append(tx, 'api_key.created', { ...key, createdAt, revokedAt: undefined });
    return isRestored;
  }

  /** Returns the time of creation of a bootstrap key that is to count as a new one. */
  #laterThan({ createdAt }: ApiKeyRecord): number {
    return Math.max(this.#deps.clock.now(), createdAt + 1);
  }

  async #insertBootstrap(
    orgId: OrgId,
    secretHash: string,
    publicPart: string | undefined,
    tx: Transaction,
  ): Promise<void> {
    const { keys, clock, ids } = this.#deps;
    const apiKey: ApiKeyRecord = {
      id: ids.next(BOOTSTRAP_PREFIX),
      orgId,
      name: 'bootstrap',
      publicPart,
      secretHash,
      scopes: [ALL_SCOPES],
      projectIds: undefined,
      createdAt: clock.now(),
      createdBy: OPERATOR,
      lastUsedAt: undefined,
      expiresAt: undefined,
      revokedAt: undefined,
      rotatedFrom: undefined,
    };
    await this.#append(tx, 'api_key.created', await keys.insert(apiKey, tx));
  }

  async #append(tx: Transaction, type: ApiKeyEventType, apiKey: ApiKeyRecord, requestId?: string): Promise<void> {
    const { outbox, auditLog } = this.#deps;
    const { id, orgId } = apiKey;
    await outbox.append(tx, { type, orgId, data: { apiKey: toApiKey(apiKey) } });
    const target = { type: 'api_key', id };
    await auditLog.append({ orgId, actor: OPERATOR_ACTOR, action: type, target, outcome: 'allowed', requestId }, tx);
  }

  async #checkedProjects(orgId: OrgId, wanted: readonly string[]): Promise<ProjectId[]> {
    const ids: ProjectId[] = [];
    for (const id of new Set(wanted)) {
      const project = await this.#deps.projects.find(orgId, id);
      if (!project || project.deletedAt !== undefined)
        throw new AppError('not_found', `The organization has no project "${id.slice(0, 80)}".`);
      ids.push(project.id);
    }
    return ids;
  }
}

const NOT_REVOKED = { revoked: undefined };

const isValid = ({ revokedAt }: ApiKeyRecord) => revokedAt === undefined;

function statesOf(keys: readonly ApiKeyRecord[]): string {
  return keys
    .map((key) => `${key.id} ${isValid(key)}`)
    .sort()
    .join();
}

/** Returns the hash of the entry of `keys` that is `key`, or undefined. */
async function findHashAmong(keys: readonly ApiKeyRecord[], key: string): Promise<ChosenKeyHash | undefined> {
  for (const { secretHash } of keys) {
    const hash = await findHashOfChosenKey(key, secretHash);
    if (hash) return hash;
  }
  return undefined;
}

function checkedScopes(wanted: readonly string[]): (Scope | typeof ALL_SCOPES)[] {
  return [...new Set(wanted)].map((text) => {
    if (text === ALL_SCOPES || isScope(text)) return text;
    throw invalidRequest({ path: 'body.scopes', message: `has "${text.slice(0, 80)}", which is not a scope` });
  });
}
