import type { TokenSeal } from './e2b-deps.ts';

/** The sandbox that a token opens, and the key with which it does. */
export interface Access {
  readonly apiKey: string;
  readonly sandboxId: string;
}

/**
 * Returns the token with which a client reaches one sandbox. It holds the API key, encrypted, so it has the scopes of
 * that key, and ends when the key is revoked.
 */
export function issueAccessToken({ apiKey, sandboxId }: Access, seal: TokenSeal): string {
  return seal.seal(JSON.stringify([sandboxId, apiKey]));
}

/** Returns what a token gives access to; undefined if this installation did not issue it for the sandbox. */
export function readAccessToken(token: string, sandboxId: string, seal: TokenSeal): Access | undefined {
  const access = readAnyToken(token, seal);
  return access?.sandboxId === sandboxId ? access : undefined;
}

/** Returns what a token gives access to; undefined if this installation did not issue it. */
export function readAnyToken(token: string, seal: TokenSeal): Access | undefined {
  try {
    const [sandboxId, apiKey] = JSON.parse(seal.open(token)) as [string, string];
    return { apiKey, sandboxId };
  } catch {
    return undefined;
  }
}
