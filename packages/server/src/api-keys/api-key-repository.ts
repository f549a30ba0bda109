import { ALL_SCOPES, type ApiKeyId, isScope, type OrgId, type ProjectId, SCOPES, type Scope } from '@cloche/contract';
import type { ApiKeyTable, Database } from '../db/database.ts';

export interface ApiKey {
  readonly id: ApiKeyId;
  readonly orgId: OrgId;
  readonly name: string;
  /** Undefined for a free-form key. */
  readonly publicPart: string | undefined;
  readonly secretHash: string;
  readonly scopes: readonly (Scope | typeof ALL_SCOPES)[];
  /** Allowed projects; undefined for every project of the organization. */
  readonly projectIds: readonly ProjectId[] | undefined;
  readonly createdAt: number;
  readonly expiresAt: number | undefined;
  readonly revokedAt: number | undefined;
}

export interface ApiKeyRepository {
  insert(key: ApiKey): Promise<void>;
  findByPublicPart(publicPart: string): Promise<ApiKey | undefined>;
  findBySecretHash(secretHash: string): Promise<ApiKey | undefined>;
  /** Returns live keys whose ids start with `prefix`. */
  listLive(prefix: string): Promise<ApiKey[]>;
  /** Revokes a key. Idempotent: the first revocation time stays. */
  revoke(id: ApiKeyId, at: number): Promise<void>;
  restore(id: ApiKeyId): Promise<void>;
  /** Removes the hashes of revoked free-form keys. */
  forgetChosenKeys(): Promise<void>;
  any(): Promise<boolean>;
}

export class SqlApiKeyRepository implements ApiKeyRepository {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async insert(key: ApiKey): Promise<void> {
    await this.#db
      .insertInto('api_keys')
      .values({
        id: key.id,
        org_id: key.orgId,
        name: key.name,
        public_part: key.publicPart ?? null,
        secret_hash: key.secretHash,
        scopes: JSON.stringify(key.scopes),
        project_ids: key.projectIds ? JSON.stringify(key.projectIds) : null,
        created_at: key.createdAt,
        expires_at: key.expiresAt ?? null,
        revoked_at: key.revokedAt ?? null,
      })
      .execute();
  }

  findByPublicPart(publicPart: string): Promise<ApiKey | undefined> {
    return this.#findBy('public_part', publicPart);
  }

  findBySecretHash(secretHash: string): Promise<ApiKey | undefined> {
    return this.#findBy('secret_hash', secretHash);
  }

  async listLive(prefix: string): Promise<ApiKey[]> {
    const rows = await this.#db.selectFrom('api_keys').selectAll().where('revoked_at', 'is', null).execute();
    return rows.filter(({ id }) => id.startsWith(prefix)).map(toApiKey);
  }

  async revoke(id: ApiKeyId, at: number): Promise<void> {
    await this.#db
      .updateTable('api_keys')
      .set({ revoked_at: at })
      .where('id', '=', id)
      .where('revoked_at', 'is', null)
      .execute();
  }

  async restore(id: ApiKeyId): Promise<void> {
    await this.#db.updateTable('api_keys').set({ revoked_at: null }).where('id', '=', id).execute();
  }

  async forgetChosenKeys(): Promise<void> {
    await this.#db
      .updateTable('api_keys')
      .set((each) => ({ secret_hash: each.ref('id') }))
      .where('public_part', 'is', null)
      .where('revoked_at', 'is not', null)
      .execute();
  }

  async any(): Promise<boolean> {
    return (await this.#db.selectFrom('api_keys').select('id').limit(1).executeTakeFirst()) !== undefined;
  }

  async #findBy(column: 'public_part' | 'secret_hash', value: string): Promise<ApiKey | undefined> {
    const row = await this.#db.selectFrom('api_keys').selectAll().where(column, '=', value).executeTakeFirst();
    return row && toApiKey(row);
  }
}

function toApiKey(row: ApiKeyTable): ApiKey {
  return {
    id: row.id as ApiKeyId,
    orgId: row.org_id as OrgId,
    name: row.name,
    publicPart: row.public_part ?? undefined,
    secretHash: row.secret_hash,
    scopes: JSON.parse(row.scopes) as ApiKey['scopes'],
    projectIds: row.project_ids === null ? undefined : (JSON.parse(row.project_ids) as ProjectId[]),
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
  };
}

/** Returns the scopes of a key, with `*` expanded. A scope that this version does not know grants nothing. */
export function grantedScopes(key: ApiKey): ReadonlySet<Scope> {
  return new Set(key.scopes.includes(ALL_SCOPES) ? SCOPES : key.scopes.filter(isScope));
}
