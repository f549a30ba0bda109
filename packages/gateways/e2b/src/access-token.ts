import type { TokenSeal } from './e2b-deps.ts';

/** Content of an access token: the sandbox that it opens, and the API key that is used for it. */
export interface Access {
  readonly apiKey: string;
  readonly sandboxId: string;
}

/**
 * Returns a token that gives a client access to one sandbox. It contains the encrypted API key. So it has the scopes of
 * that key, and ends when the key is revoked.
 */
export function issueAccessToken({ apiKey, sandboxId }: Access, seal: TokenSeal): string {
  return seal.seal(JSON.stringify([sandboxId, apiKey]));
}

/** Returns the content of a token; undefined if this installation did not issue it for the sandbox. */
export function readAccessToken(token: string, sandboxId: string, seal: TokenSeal): Access | undefined {
  const access = readAnyToken(token, seal);
  return access?.sandboxId === sandboxId ? access : undefined;
}

/** Returns the content of a token; undefined if this installation did not issue it. */
export function readAnyToken(token: string, seal: TokenSeal): Access | undefined {
  try {
    const [sandboxId, apiKey] = JSON.parse(seal.open(token)) as [string, string];
    return { apiKey, sandboxId };
  } catch {
    return undefined;
  }
}
