import type { ApiKeyId } from '@cloche/contract';
import type { AppError } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import type { ApiKeyRepository } from './api-key-repository.ts';
import { type Authenticator, unauthorized } from './authenticator.ts';

/** Interval at which ended keys are looked up, so that their requests and connections end within a second. */
export const KEY_LOOK_MS = 500;

/** Work that this server has open for keys: requests, streams, terminals, connections through previews. */
export interface OpenWork {
  /** Returns the keys that have open work. */
  keyIds(): Iterable<ApiKeyId>;
  /** Ends everything that is open for a key, except the request with the signal `except`. */
  endKey(id: ApiKeyId, reason: AppError, except?: AbortSignal): void;
}

export interface EndKeyWorkDeps {
  readonly keys: ApiKeyRepository;
  readonly authenticator: Authenticator;
  readonly clock: Clock;
  readonly open: readonly OpenWork[];
}

/** Ends the open work of keys that were revoked or have expired. */
export class EndKeyWork {
  readonly #deps: EndKeyWorkDeps;

  constructor(deps: EndKeyWorkDeps) {
    this.#deps = deps;
  }

  /**
   * Ends the open work of a key on this server. Call it after the database has recorded that the key ended. Idempotent.
   */
  end(id: ApiKeyId, except?: AbortSignal): void {
    const { authenticator, open } = this.#deps;
    authenticator.forget();
    for (const each of open) each.endKey(id, keyEnded(), except);
  }

  /** Ends the open work of keys that have expired since the last call, or that another server has revoked. */
  async look(): Promise<void> {
    const { keys, clock, open } = this.#deps;
    const ids = new Set(open.flatMap((each) => [...each.keyIds()]));
    if (ids.size === 0) return;
    for (const id of await keys.listEnded([...ids], clock.now())) this.end(id);
  }
}

function keyEnded(): AppError {
  return unauthorized('The API key was revoked or has expired; use another key.');
}
