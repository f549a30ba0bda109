import type { Operation, Scope } from '@cloche/contract';
import { AppError } from '../base/app-error.ts';
import type { Credential } from '../keys/credential.ts';

/** Requires the scope of the operation, unless `params` names the key itself where that suffices. */
export function requireOperationScope(credential: Credential, operation: Operation, params: unknown): void {
  const { scope, scopeExempt } = operation;
  if (scope === null) return;
  const named = scopeExempt && (params as Record<string, unknown>)[scopeExempt];
  if (named !== credential.apiKeyId) requireScope(credential, scope);
}

/** @throws AppError `forbidden`. */
export function requireScope(credential: Credential, scope: Scope): void {
  if (credential.scopes.has(scope)) return;
  throw new AppError('forbidden', `This API key lacks the scope "${scope}"; use a key that has it.`, {
    details: { requiredScope: scope },
  });
}

/** Requires the additional scope that some bodies need. `body` is not validated yet. */
export function requireExtraScope(credential: Credential, operation: Operation, body: unknown): void {
  if (!operation.extraScope || typeof body !== 'object' || body === null) return;
  const promotes = 'artifactPolicy' in body && body.artifactPolicy === 'promote';
  if (promotes || 'startCommand' in body) requireScope(credential, operation.extraScope.scope);
}
