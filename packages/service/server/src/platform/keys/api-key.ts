import {
  ALL_SCOPES,
  type ApiKey,
  type ApiKeyId,
  ID_PREFIXES,
  isScope,
  type OrgId,
  type ProjectId,
  SCOPES,
  type Scope,
} from '@cloche/contract';
import { timestamp } from '../base/clock.ts';
import { keyPrefix } from './api-key-format.ts';

export const OPERATOR = 'operator';
/** Prefix of the ids of bootstrap keys, which come from the server's settings. */
export const BOOTSTRAP_PREFIX = `${ID_PREFIXES.apiKey}bootstrap_` as const;

/** Times are milliseconds since the epoch. */
export interface ApiKeyRecord {
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
  readonly createdBy: ApiKeyId | typeof OPERATOR;
  readonly lastUsedAt: number | undefined;
  readonly expiresAt: number | undefined;
  readonly revokedAt: number | undefined;
  readonly rotatedFrom: ApiKeyId | undefined;
}

/** Returns the scopes of a key, with `*` expanded. A scope that this version does not know grants nothing. */
export function grantedScopes({ scopes }: ApiKeyRecord): ReadonlySet<Scope> {
  return new Set(scopes.includes(ALL_SCOPES) ? SCOPES : scopes.filter(isScope));
}

/** Whether the key works: neither revoked nor expired. */
export function isWorking({ revokedAt, expiresAt }: ApiKeyRecord, now: number): boolean {
  return revokedAt === undefined && (expiresAt === undefined || expiresAt > now);
}

export function toApiKey(key: ApiKeyRecord): ApiKey {
  const { id, orgId, name, publicPart, scopes, projectIds, createdAt, createdBy, rotatedFrom } = key;
  const { lastUsedAt, expiresAt, revokedAt } = key;
  return {
    id,
    orgId,
    name,
    ...(publicPart === undefined ? {} : { prefix: keyPrefix(publicPart) }),
    scopes: [...scopes],
    ...(projectIds && { projectIds: [...projectIds] }),
    createdAt: timestamp(createdAt),
    createdBy,
    ...(lastUsedAt === undefined ? {} : { lastUsedAt: timestamp(lastUsedAt) }),
    ...(expiresAt === undefined ? {} : { expiresAt: timestamp(expiresAt) }),
    ...(revokedAt === undefined ? {} : { revokedAt: timestamp(revokedAt) }),
    ...(rotatedFrom === undefined ? {} : { rotatedFrom }),
  };
}
