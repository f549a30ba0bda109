import type { Credential } from '../api-keys/credential.ts';
import type { AppError } from '../base/app-error.ts';

/** The answer of a rate limit to one request. */
export interface RateDecision {
  /** `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10. */
  readonly headers: Readonly<Record<string, string>>;
  /** Why the request is refused. */
  readonly refusal: AppError | undefined;
}

/** Counts a request. Returns undefined, at once where possible, if no limit applies to the key. */
export type LimitRequests = (credential: Credential) => RateDecision | undefined | Promise<RateDecision | undefined>;
