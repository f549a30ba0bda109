import type { Logger } from 'pino';
import type { RequestAudit } from '../audit-log/request-audit.ts';
import { ResultMemory } from '../base/result-memory.ts';
import type { Attempt } from '../idempotency/require-claim.ts';
import type { Credential } from '../keys/credential.ts';

/** `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-10. */
export type RateFields = Readonly<Record<'ratelimit-policy' | 'ratelimit', string>>;

/**
 * The context of one API request: credential, time limits, idempotency, audit and log. `http/execute.ts` creates it, and
 * each method of a service takes it as the first argument. Parameters and bodies are separate arguments.
 */
export interface Call {
  readonly credential: Credential;
  /** When the request arrived, in `Clock` milliseconds; timeouts of the contract count from here. */
  readonly receivedAt: number;
  /** Aborts when the client disconnects (streams and waits), or when the server stops. */
  readonly signal: AbortSignal;
  /** Undefined if the request has no Idempotency-Key. */
  readonly idempotency: Attempt | undefined;
  /** The audit event of the request; undefined if its operation has none. */
  readonly audit: RequestAudit | undefined;
  /** Adds the state of per-minute limits to the headers of the answer. */
  readonly reportRates: (fields: RateFields) => void;
  /** Memory for the result of the request. Code that gathers a result requests memory here before it holds more. */
  readonly memory: ResultMemory;
  /** Adds the id of the request to each line. */
  readonly log: Logger;
}

/** The part of a call that repositories take: a change writes its audit event in its own transaction. */
export interface Audited {
  readonly audit: Pick<RequestAudit, 'append'> | undefined;
}

/** The call of a change that the service makes without a request. Such a change has no audit event. */
export const UNAUDITED = { audit: undefined } as const satisfies Audited;

export interface ServiceWork extends Pick<Call, 'credential' | 'receivedAt' | 'signal' | 'log'> {
  /** Id of the idempotency record. When the work is repeated, it finds the resources created under this id. */
  readonly recordId?: string;
}

/** Returns the call of work that the service does by itself, such as a job or a step of a build. */
export function serviceCall({ recordId, ...work }: ServiceWork): Call {
  return {
    ...work,
    ...UNAUDITED,
    idempotency: recordId === undefined ? undefined : { recordId },
    reportRates: () => undefined,
    memory: ResultMemory.unlimited(),
  };
}
