import type { ErrorCode, Operation } from '@cloche/contract';
import type { RequestAudit } from '../audit-log/request-audit.ts';
import type { Credential } from '../keys/credential.ts';
import type { Span } from '../tracing/tracing.ts';

/** Facts about a request, gathered during its execution for its log line and its metrics. */
export interface RequestState {
  readonly receivedAt: number;
  operation: Operation | undefined;
  credential: Credential | undefined;
  /** Changes of keys when the credential was found. */
  keyChanges: number;
  errorCode: ErrorCode | 'client_gone' | undefined;
  /** Whether a limit that the client set caused the error. */
  isClientsBound: boolean;
  idempotency: IdempotencyOutcome | undefined;
  /** The audit event of the request; undefined if its operation has none. */
  audit: RequestAudit | undefined;
  /** Undefined if the request is not traced. */
  span: Span | undefined;
}

export type IdempotencyOutcome = 'executed' | 'replayed' | 'refused';

declare module 'fastify' {
  interface FastifyRequest {
    state: RequestState;
  }
}
