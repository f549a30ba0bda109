import type { ApiKey } from '@cloche/contract';
import {
  type ApiKeyEventType,
  type ApiKeyId,
  type CreateApiKeyBody,
  ID_PREFIXES,
  LIMITS,
  type OrgId,
  type ProjectId,
  type RotateApiKeyBody,
} from '@cloche/contract';
import { AppError, invalidRequest, notFound } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Call } from '../../platform/call/call.ts';
import { type List, newestFirst } from '../../platform/db/list.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import { requireClaim } from '../../platform/idempotency/require-claim.ts';
import { type ApiKeyRecord, toApiKey } from '../../platform/keys/api-key.ts';
import { hashApiKey, makeApiKey } from '../../platform/keys/api-key-format.ts';
import type { ApiKeyRepository } from '../../platform/keys/api-key-repository.ts';
import type { Authenticator } from '../../platform/keys/authenticator.ts';
import { type Credential, mayUseProject } from '../../platform/keys/credential.ts';
import type { EndKeyWork } from '../../platform/keys/end-key-work.ts';
import { maySee, requireCovered } from '../../platform/keys/grants.ts';
import type { EventOutbox } from '../../platform/outbox/event-outbox.ts';
import type { Org, OrgRepository } from '../../platform/tenancy/org-repository.ts';
import type { ProjectRecord } from '../../platform/tenancy/project.ts';
import type { ProjectRepository } from '../../platform/tenancy/project-repository.ts';

export interface ManageApiKeysDeps {
  readonly keys: ApiKeyRepository;
  readonly orgs: OrgRepository;
  readonly projects: ProjectRepository;
  readonly authenticator: Authenticator;
  readonly endKeyWork: EndKeyWork;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly clock: Clock;
  readonly ids: IdSource;
}

export interface KeyWithSecret {
  readonly apiKey: ApiKeyRecord;
  /** The key itself, which cannot be shown again. */
  readonly secret: string;
}

/** Creates, shows, rotates and revokes keys for callers with keys of their own. */
export class ManageApiKeys {
  readonly #deps: ManageApiKeysDeps;

  constructor(deps: ManageApiKeysDeps) {
    this.#deps = deps;
  }

  /**
   * Creates a key.
   *
   * @throws AppError `forbidden` for what the caller lacks itself, `not_found` for an unknown project,
   * `quota_exceeded`, `unavailable` if another attempt of the request has begun.
   */
  async create({ credential, idempotency, audit }: Call, body: CreateApiKeyBody): Promise<KeyWithSecret> {
    const { keys, transactions, clock, ids } = this.#deps;
    const now = clock.now();
    const wanted = {
      scopes: [...new Set(body.scopes)],
      projectIds: body.projectIds && [...new Set(body.projectIds)],
      expiresAt: body.expiresAt === undefined ? undefined : futureTime(body.expiresAt, now),
    };
    await this.#requireProjects(credential.orgId, wanted.projectIds ?? []);
    requireCovered(await this.#caller(credential), wanted);
    const { key, publicPart } = makeApiKey();
    const apiKey: ApiKeyRecord = {
      id: ids.next(ID_PREFIXES.apiKey),
      orgId: credential.orgId,
      name: body.name,
      publicPart,
      secretHash: hashApiKey(key),
      ...wanted,
      createdAt: now,
      createdBy: credential.apiKeyId,
      lastUsedAt: undefined,
      revokedAt: undefined,
      rotatedFrom: undefined,
    };
    const inserted = await transactions.run(async (tx) => {
      await requireClaim(tx, idempotency);
      const result = await keys.insertBounded(
        { ...apiKey, idempotencyRecordId: idempotency?.recordId },
        LIMITS.apiKeysPerOrganization,
        tx,
      );
      if (result.status === 'inserted') {
        await this.#append(tx, 'api_key.created', result.key, result.lost);
        if (result.lost) await audit?.appendFurther(tx, 'api_key.revoked', result.lost);
        await audit?.append(tx, result.key);
      }
      return result;
    });
    if (inserted.status === 'full') throw tooMany(inserted.used);
    return { apiKey: inserted.key, secret: key };
  }

  /** Opens the list of the keys that the caller may see, newest first; without `include`, only those that work. */
  list({ credential }: Call, include: 'revoked' | undefined): List<ApiKeyRecord, ApiKey> {
    const workingAt = include === 'revoked' ? undefined : this.#deps.clock.now();
    const filter = { orgId: credential.orgId, seenBy: credential, workingAt };
    return newestFirst((part) => this.#deps.keys.list(filter, part), toApiKey);
  }

  /** @throws AppError `not_found`; `forbidden` for a key with other projects than the caller's. */
  async get({ credential }: Call, id: string): Promise<ApiKeyRecord> {
    const key = await this.#deps.keys.find(credential.orgId, id);
    if (!key) throw notFound('API key', id);
    if (maySee(credential, key)) return key;
    throw new AppError('forbidden', `This API key may not use all projects of the key "${id}"; use a key that may.`);
  }

  /** Returns the caller's key, its organization, and the default project or another that the key may use. */
  async current({ credential }: Call): Promise<{ apiKey: ApiKeyRecord; org: Org; project: ProjectRecord }> {
    const { orgs, projects } = this.#deps;
    const [apiKey, org, defaultId] = await Promise.all([
      this.#caller(credential),
      orgs.find(credential.orgId),
      projects.getDefaultId(credential.orgId),
    ]);
    if (!org) throw new Error(`organization ${credential.orgId} of a key does not exist`);
    const [other] = apiKey.projectIds ?? [];
    const projectId = other === undefined || mayUseProject(credential, defaultId) ? defaultId : other;
    const project = await projects.find(org.id, projectId);
    if (!project) throw new Error(`project ${projectId} of a key does not exist`);
    return { apiKey, org, project };
  }

  /**
   * Creates a successor of a key, which itself expires after the grace.
   *
   * @throws AppError `forbidden` for a key with more than the caller has, `conflict` for a key that does not work.
   */
  async rotate(
    call: Call,
    id: ApiKeyId,
    { graceMs = LIMITS.apiKeyGraceDefaultMs }: RotateApiKeyBody,
  ): Promise<KeyWithSecret> {
    const { keys, transactions, authenticator, endKeyWork, clock, ids } = this.#deps;
    const { credential, idempotency, signal, audit } = call;
    const old = await this.get(call, id);
    requireCovered(await this.#caller(credential), old);
    const { key, publicPart } = makeApiKey();
    const now = clock.now();
    const successor = {
      ...old,
      id: ids.next(ID_PREFIXES.apiKey),
      publicPart,
      secretHash: hashApiKey(key),
      createdAt: now,
      createdBy: credential.apiKeyId,
      lastUsedAt: undefined,
      revokedAt: undefined,
      rotatedFrom: old.id,
      idempotencyRecordId: idempotency?.recordId,
    };
    const apiKey = await transactions.run(async (tx) => {
      await requireClaim(tx, idempotency);
      const rotated = await keys.rotate(successor, now + graceMs, tx);
      if (!rotated) throw notWorking(id);
      await this.#append(tx, 'api_key.rotated', rotated.successor, rotated.lost);
      if (rotated.lost) await audit?.appendFurther(tx, 'api_key.revoked', rotated.lost);
      await audit?.appendFurther(tx, 'api_key.created', rotated.successor);
      await audit?.append(tx, old);
      return rotated.successor;
    });
    authenticator.forget();
    // Ends the work of the old key, but not this request, which that key may have sent.
    if (graceMs === 0) endKeyWork.end(old.id, signal);
    await authenticator.forgetEverywhere(signal);
    return { apiKey, secret: key };
  }

  /** Revokes a key. Idempotent. @throws AppError `forbidden` for another key with more than the caller has. */
  async revoke(call: Call, id: ApiKeyId): Promise<ApiKeyRecord> {
    const { keys, transactions, authenticator, endKeyWork, clock } = this.#deps;
    const { credential, signal, audit } = call;
    const key = await this.get(call, id);
    if (key.revokedAt !== undefined) {
      await keys.revoke(id, clock.now());
      // An interrupted attempt may have revoked the key without clearing the caches of the other servers.
      await authenticator.forgetEverywhere(signal);
      return key;
    }
    if (id !== credential.apiKeyId) requireCovered(await this.#caller(credential), key);
    await transactions.run(async (tx) => {
      const revoked = await keys.revoke(id, clock.now(), tx);
      if (!revoked) return;
      await this.#append(tx, 'api_key.revoked', revoked);
      await audit?.append(tx, { id });
    });
    endKeyWork.end(id, signal);
    await authenticator.forgetEverywhere(signal);
    return this.get(call, id);
  }

  /**
   * Appends the event of a change. If an interrupted attempt left a key behind, appends the event of its revocation
   * first.
   */
  async #append(tx: Transaction, type: ApiKeyEventType, key: ApiKeyRecord, lost?: ApiKeyRecord): Promise<void> {
    const { outbox } = this.#deps;
    if (lost) await this.#append(tx, 'api_key.revoked', lost);
    await outbox.append(tx, { type, orgId: key.orgId, data: { apiKey: toApiKey(key) } });
  }

  async #caller({ orgId, apiKeyId }: Credential): Promise<ApiKeyRecord> {
    const caller = await this.#deps.keys.find(orgId, apiKeyId);
    if (!caller) throw new Error(`the calling key ${apiKeyId} does not exist`);
    return caller;
  }

  async #requireProjects(orgId: OrgId, ids: readonly ProjectId[]): Promise<void> {
    for (const id of ids) {
      const project = await this.#deps.projects.find(orgId, id);
      if (!project || project.deletedAt !== undefined) throw notFound('project', id);
    }
  }
}

function futureTime(text: string, now: number): number {
  const at = Date.parse(text);
  if (at > now) return at;
  throw invalidRequest({ path: 'body.expiresAt', message: 'must be a time in the future' });
}

function notWorking(id: ApiKeyId): AppError {
  return new AppError('conflict', `The API key "${id}" was revoked or has expired; create a key instead.`);
}

function tooMany(used: number): AppError {
  const limit = LIMITS.apiKeysPerOrganization;
  const message = `The organization has ${used} API keys, and its limit is ${limit}; revoke some first.`;
  return new AppError('quota_exceeded', message, { details: { quota: 'api_keys', limit, used } });
}
