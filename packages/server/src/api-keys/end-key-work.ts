import type { ApiKeyId } from '@cloche/contract';
import type { AppError } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import type { ApiKeyRepository } from './api-key-repository.ts';
import { type Authenticator, unauthorized } from './authenticator.ts';

/** Interval of the look for keys that have ended, so that what is open ends within a second. */
export const KEY_LOOK_MS = 500;

/** Work that this server has open for keys: requests, streams, terminals, connections through previews. */
export interface OpenWork {
  /** Returns the keys for which something is open. */
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

/** Ends what is open for keys that were revoked or have expired. */
export class EndKeyWork {
  readonly #deps: EndKeyWorkDeps;

  constructor(deps: EndKeyWorkDeps) {
    this.#deps = deps;
  }

  /** Ends what this server has open for a key. Call it when the database says that the key has ended. Idempotent. */
  end(id: ApiKeyId, except?: AbortSignal): void {
    const { authenticator, open } = this.#deps;
    authenticator.forget();
    for (const each of open) each.endKey(id, keyEnded(), except);
  }

  /** Ends what is open for keys that have expired since, or that another server has revoked. */
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
