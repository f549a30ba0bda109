import { pino } from 'pino';
import { ResultMemory } from '../src/platform/base/result-memory.ts';
import type { Call } from '../src/platform/call/call.ts';

/** Returns the call of a request without Idempotency-Key, which no client ends. */
export function callOf(parts: Partial<Call> & Pick<Call, 'credential'>): Call {
  return {
    receivedAt: 0,
    signal: new AbortController().signal,
    idempotency: undefined,
    audit: undefined,
    reportRates: () => undefined,
    memory: ResultMemory.unlimited(),
    log: pino({ level: 'silent' }),
    ...parts,
  };
}
