import { AppError } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import type { Authenticator } from '../keys/authenticator.ts';
import type { Credential } from '../keys/credential.ts';
import { authenticateHeader } from './authorize.ts';
import { WrongKeyDelay } from './wrong-key-delay.ts';

/** Checks keys of requests, and delays the answers to wrong ones by the addresses that they come from. */
export class CheckKey {
  readonly #authenticator: Authenticator;
  readonly #delays: WrongKeyDelay;

  constructor({ authenticator, clock }: { readonly authenticator: Authenticator; readonly clock: Clock }) {
    this.#authenticator = authenticator;
    this.#delays = new WrongKeyDelay({ clock });
  }

  /**
   * Returns the credential of the key in `header`, the value of Authorization.
   *
   * @throws AppError `unauthorized`; `rate_limited` when too many wrong keys of the address wait.
   */
  async check(header: string | undefined, address: string): Promise<Credential> {
    try {
      return await authenticateHeader(header, this.#authenticator);
    } catch (error) {
      if (header && error instanceof AppError && error.is('unauthorized')) await this.#delays.wrongKey(address);
      throw error;
    }
  }
}
