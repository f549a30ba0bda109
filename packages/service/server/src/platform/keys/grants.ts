import { ALL_SCOPES } from '@cloche/contract';
import { AppError } from '../base/app-error.ts';
import type { ApiKeyRecord } from './api-key.ts';
import type { Credential } from './credential.ts';

export type Grant = Pick<ApiKeyRecord, 'scopes' | 'projectIds' | 'expiresAt'>;

/** @throws AppError `forbidden` if `wanted` has a scope, a project or a lifetime that `caller` lacks. */
export function requireCovered(caller: Grant, wanted: Grant): void {
  const missing = [
    ...missingScopes(caller, wanted),
    ...missingProjects(caller, wanted),
    ...missingTime(caller, wanted),
  ];
  if (missing.length === 0) return;
  throw new AppError(
    'forbidden',
    `This API key lacks ${missing.join(', ').slice(0, 1000)}; use a key that has it, or leave it out.`,
    { details: { missing } },
  );
}

/** Whether all projects of `key` are projects of the caller. */
export function maySee(caller: Credential, key: ApiKeyRecord): boolean {
  const { projectIds } = caller;
  if (projectIds === undefined || key.id === caller.apiKeyId) return true;
  return key.projectIds?.every((id) => projectIds.has(id)) ?? false;
}

function missingScopes(caller: Grant, wanted: Grant): string[] {
  if (caller.scopes.includes(ALL_SCOPES)) return [];
  return wanted.scopes.filter((scope) => !caller.scopes.includes(scope));
}

function missingProjects(caller: Grant, wanted: Grant): string[] {
  if (caller.projectIds === undefined) return [];
  if (wanted.projectIds === undefined) return ['projectIds'];
  return wanted.projectIds.filter((id) => !caller.projectIds?.includes(id));
}

function missingTime(caller: Grant, wanted: Grant): string[] {
  if (caller.expiresAt === undefined) return [];
  return wanted.expiresAt === undefined || wanted.expiresAt > caller.expiresAt ? ['expiresAt'] : [];
}
