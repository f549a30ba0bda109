import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import { unauthorized } from '../keys/authenticator.ts';
import type { Credential } from '../keys/credential.ts';
import type { CredentialSource } from './credential-sources.ts';
import { WrongKeyDelay } from './wrong-key-delay.ts';

export interface CheckKeyDeps {
  /** The accepted kinds of credentials. A request is checked for each kind in this order. */
  readonly sources: readonly CredentialSource[];
  readonly clock: Clock;
}

/** Finds the credential of a request, and delays the answers to wrong ones by the addresses that they come from. */
export class CheckKey {
  readonly #sources: readonly CredentialSource[];
  readonly #delays: WrongKeyDelay;

  constructor({ sources, clock }: CheckKeyDeps) {
    this.#sources = sources;
    this.#delays = new WrongKeyDelay({ clock });
  }

  /**
   * Returns the credential of a request with these headers, from `address`.
   *
   * @throws AppError `unauthorized`; `rate_limited` when too many wrong keys of the address wait.
   */
  async check(headers: IncomingHttpHeaders, address: string): Promise<Credential> {
    try {
      for (const source of this.#sources) {
        const credential = await source.credentialOf(headers);
        if (credential) return credential;
      }
    } catch (error) {
      if (error instanceof AppError && error.is('unauthorized')) await this.#delays.wrongKey(address);
      throw error;
    }
    throw unauthorized('The API key is missing: send the header Authorization: Bearer clk_…');
  }
}
