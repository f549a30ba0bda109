import type { RequestState } from './request-state.ts';

/** The result of a request, for the log and the metrics. */
export interface Outcome
  extends Partial<Pick<RequestState, 'credential' | 'errorCode' | 'isClientsBound' | 'idempotency' | 'span'>> {
  readonly requestId: string;
  /** Id of the operation, or name of the front that refused the request; undefined for a request of neither. */
  readonly operation: string | undefined;
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly status: number;
  readonly durationMs: number;
}
