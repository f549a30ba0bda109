import {
  ALL_SCOPES,
  type ApiKeyId,
  ID_PREFIXES,
  isScope,
  type OrgId,
  type ProjectId,
  type Scope,
} from '@cloche/contract';
import { AppError, invalidRequest } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import type { IdSource } from '../base/id-source.ts';
import type { ProjectRepository } from '../projects/project-repository.ts';
import { type ApiKeyRecord, OPERATOR } from './api-key.ts';
import { hashApiKey, makeApiKey, parseApiKey } from './api-key-format.ts';
import type { ApiKeyRepository } from './api-key-repository.ts';
import type { Authenticator } from './authenticator.ts';
import { type ChosenKeyHash, findHashOfChosenKey, hashChosenKey } from './chosen-key-hash.ts';

const BOOTSTRAP_PREFIX = `${ID_PREFIXES.apiKey}bootstrap_` as const;

export interface NewApiKey {
  readonly orgId: OrgId;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly projectIds?: readonly string[] | undefined;
  readonly expiresInMs?: number | undefined;
}

/** Creates and revokes keys. */
export class ApiKeyService {
  readonly #keys: ApiKeyRepository;
  readonly #projects: ProjectRepository;
  readonly #authenticator: Authenticator;
  readonly #clock: Clock;
  readonly #ids: IdSource;

  constructor(
    keys: ApiKeyRepository,
    projects: ProjectRepository,
    authenticator: Authenticator,
    clock: Clock,
    ids: IdSource,
  ) {
    this.#keys = keys;
    this.#projects = projects;
    this.#authenticator = authenticator;
    this.#clock = clock;
    this.#ids = ids;
  }

  /**
   * Creates a key. `secret` is the key itself, which cannot be shown again.
   *
   * @throws AppError for an unknown scope or project.
   */
  async create(wanted: NewApiKey): Promise<{ apiKey: ApiKeyRecord; secret: string }> {
    const scopes = checkedScopes(wanted.scopes);
    const projectIds = wanted.projectIds && (await this.#checkedProjects(wanted.orgId, wanted.projectIds));
    const { key, publicPart } = makeApiKey();
    const now = this.#clock.now();
    const apiKey: ApiKeyRecord = {
      id: this.#ids.next(ID_PREFIXES.apiKey),
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
    await this.#keys.insert(apiKey);
    return { apiKey, secret: key };
  }

  /** Creates the first key, with every scope. Throws `conflict` when any key exists. */
  async createFirst(orgId: OrgId): Promise<{ apiKey: ApiKeyRecord; secret: string }> {
    if (await this.#keys.any())
      throw new AppError('conflict', 'An API key already exists; create another one by name.');
    return this.create({ orgId, name: 'first', scopes: [ALL_SCOPES] });
  }

  /**
   * Makes `key` the only bootstrap key, with every scope, and revokes earlier ones. Without `key`, revokes all of them.
   * Idempotent.
   */
  async bootstrap(orgId: OrgId, key: string | undefined): Promise<void> {
    const chosen = key !== undefined && parseApiKey(key).kind !== 'generated' ? key : undefined;
    const live = await this.#keys.listLive(BOOTSTRAP_PREFIX);
    const known = chosen === undefined ? undefined : await findHashAmong(live, chosen);
    const kept = chosen !== undefined || key === undefined ? known?.stored : hashApiKey(key);
    for (const { id, secretHash } of live) {
      if (secretHash !== kept) await this.#keys.revoke(id, this.#clock.now());
    }
    await this.#keys.forgetChosenKeys();
    if (chosen !== undefined) {
      const hash = known ?? (await hashChosenKey(chosen));
      if (known === undefined) await this.#insertBootstrap(orgId, hash.stored, undefined);
      this.#authenticator.acceptChosen({ key: chosen, hash });
    } else {
      this.#authenticator.acceptChosen(undefined);
      if (key !== undefined) await this.#ensureGenerated(orgId, key);
    }
    this.#authenticator.forget();
  }

  async revoke(id: ApiKeyId): Promise<void> {
    await this.#keys.revoke(id, this.#clock.now());
    this.#authenticator.forget();
  }

  async #ensureGenerated(orgId: OrgId, key: string): Promise<void> {
    const secretHash = hashApiKey(key);
    const existing = await this.#keys.findBySecretHash(secretHash);
    if (existing) {
      if (existing.id.startsWith(BOOTSTRAP_PREFIX)) await this.#keys.restore(existing.id);
      return;
    }
    const parsed = parseApiKey(key);
    await this.#insertBootstrap(orgId, secretHash, parsed.kind === 'generated' ? parsed.publicPart : undefined);
  }

  #insertBootstrap(orgId: OrgId, secretHash: string, publicPart: string | undefined): Promise<void> {
    return this.#keys.insert({
      id: this.#ids.next(BOOTSTRAP_PREFIX),
      orgId,
      name: 'bootstrap',
      publicPart,
      secretHash,
      scopes: [ALL_SCOPES],
      projectIds: undefined,
      createdAt: this.#clock.now(),
      createdBy: OPERATOR,
      lastUsedAt: undefined,
      expiresAt: undefined,
      revokedAt: undefined,
      rotatedFrom: undefined,
    });
  }

  async #checkedProjects(orgId: OrgId, wanted: readonly string[]): Promise<ProjectId[]> {
    const ids: ProjectId[] = [];
    for (const id of new Set(wanted)) {
      const project = await this.#projects.find(orgId, id);
      if (!project || project.deletedAt !== undefined)
        throw new AppError('not_found', `The organization has no project "${id.slice(0, 80)}".`);
      ids.push(project.id);
    }
    return ids;
  }
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
