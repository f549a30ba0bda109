import type { FastifyReply } from 'fastify';
import type { AppError } from '../base/app-error.ts';
import type { RateFields } from '../call/call.ts';
import type { Credential } from '../keys/credential.ts';

/** The answer of a rate limit to one request. */
export interface RateDecision {
  readonly headers: RateFields;
  /** Why the request is refused. */
  readonly refusal: AppError | undefined;
}

/** Counts a request. Returns undefined, at once where possible, if no limit applies to the key. */
export type LimitRequests = (credential: Credential) => RateDecision | undefined | Promise<RateDecision | undefined>;

/** Adds fields to an answer that may have those of other limits. */
export function addRateFields(reply: FastifyReply, fields: RateFields): void {
  for (const [name, value] of Object.entries(fields)) {
    const present = reply.getHeader(name);
    reply.header(name, present === undefined ? value : `${present}, ${value}`);
  }
}
