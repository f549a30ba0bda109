import type { Operation, Scope } from '@cloche/contract';
import { AppError } from '../base/app-error.ts';
import type { Authenticator } from '../keys/authenticator.ts';
import { unauthorized } from '../keys/authenticator.ts';
import type { Credential } from '../keys/credential.ts';

/**
 * Form of the header. Limits the length of a key, so that hashing a stranger's header is cheap. No key is longer. A key
 * begins with no space: otherwise a header of spaces would be tried at each of them.
 */
const BEARER = /^bearer +([\x21-\x7e][\x20-\x7e]{0,1023})$/i;
const HEADER_CHARACTERS = 1100;

/** @throws AppError `unauthorized` without a valid key in `header`, the value of Authorization. */
export function authenticateHeader(header: string | undefined, authenticator: Authenticator): Promise<Credential> {
  if (!header) throw unauthorized('The API key is missing: send the header Authorization: Bearer clk_…');
  const key = bearerKey(header);
  if (key === undefined) throw unauthorized('headers.authorization must be "Bearer", a space and an API key.');
  return authenticator.authenticate(key);
}

/** Returns the API key of `header`, the value of Authorization. */
export function bearerKey(header = ''): string | undefined {
  return header.length > HEADER_CHARACTERS ? undefined : BEARER.exec(header)?.[1]?.trimEnd();
}

/** Whether `header` holds a key that is valid now. */
export async function isApiKey(header: string, authenticator: Authenticator): Promise<boolean> {
  try {
    await authenticateHeader(header, authenticator);
    return true;
  } catch (error) {
    if (error instanceof AppError) return false;
    throw error;
  }
}

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
  if ('artifactPolicy' in body && body.artifactPolicy === 'promote') {
    requireScope(credential, operation.extraScope.scope);
  }
}
