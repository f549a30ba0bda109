import type { ErrorCode, Operation } from '@cloche/contract';
import type { Credential } from '../api-keys/credential.ts';

/** What becomes known of a request on its way, for its outcome line and its metrics. */
export interface RequestState {
  readonly receivedAt: number;
  operation: Operation | undefined;
  credential: Credential | undefined;
  errorCode: ErrorCode | 'client_gone' | undefined;
  /** Whether the error comes from a bound that the client set itself. */
  isClientsBound: boolean;
  idempotency: IdempotencyOutcome | undefined;
}

export type IdempotencyOutcome = 'executed' | 'replayed' | 'refused';

declare module 'fastify' {
  interface FastifyRequest {
    state: RequestState;
  }
}
