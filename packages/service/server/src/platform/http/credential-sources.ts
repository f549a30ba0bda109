import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '../base/app-error.ts';
import { type Authenticator, unauthorized } from '../keys/authenticator.ts';
import type { Credential } from '../keys/credential.ts';

/**
 * Form of a key. Limits its length, so that hashing a stranger's header is cheap. No key is longer. A key begins with no
 * space: otherwise a header of spaces would be tried at each of them.
 */
const KEY = '[\\x21-\\x7e][\\x20-\\x7e]{0,1023}';
const BEARER = new RegExp(`^bearer +(${KEY})$`, 'i');
const HEADER_CHARACTERS = 1100;
const MALFORMED = 'headers.authorization must be "Bearer", a space and an API key.';

/** Finds credentials of one kind in requests, for example API keys. */
export interface CredentialSource {
  /**
   * Returns the credential of a request with these headers, or undefined if they hold none of this kind.
   *
   * @throws AppError `unauthorized` if they hold one that is not valid
   */
  credentialOf(headers: IncomingHttpHeaders): Promise<Credential | undefined>;
}

/** API keys in the header Authorization: `Bearer clk_…`. */
export class BearerKeys implements CredentialSource {
  readonly #authenticator: Authenticator;

  constructor(authenticator: Authenticator) {
    this.#authenticator = authenticator;
  }

  async credentialOf({ authorization }: IncomingHttpHeaders): Promise<Credential | undefined> {
    if (!authorization) return undefined;
    const key = bearerKey(authorization);
    if (key === undefined) throw unauthorized(MALFORMED);
    return this.#authenticator.authenticate(key);
  }

  /** Whether `authorization`, the value of the header, holds a key that is valid now. */
  async isValid(authorization: string): Promise<boolean> {
    try {
      return (await this.credentialOf({ authorization })) !== undefined;
    } catch (error) {
      if (error instanceof AppError) return false;
      throw error;
    }
  }
}

/** Returns the API key of `header`, the value of Authorization. */
export function bearerKey(header = ''): string | undefined {
  return header.length > HEADER_CHARACTERS ? undefined : BEARER.exec(header)?.[1]?.trimEnd();
}
