import type { PausePolicy } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';

/** Lifetime without `timeout`: of a creation, of a connection, and at least that of a wake by a request. */
export const DEFAULT_TIMEOUT_S = 300;
const LONGEST_TIMEOUT_S = 86_400;
export const SECOND_MS = 1000;

/** The fields of a creation that decide when its sandbox pauses. */
export interface PauseRequest {
  readonly timeout?: number;
  readonly autoPause?: boolean | null;
  readonly autoPauseMemory?: boolean | null;
  readonly autoResume?: { readonly enabled?: boolean | null } | null;
}

export const PAUSE_FIELDS = ['autoPause', 'autoPauseMemory', 'autoResume'] as const;
export const FLAG = { type: ['boolean', 'null'] };
export const TIMEOUT = { type: 'integer', minimum: 0, maximum: LONGEST_TIMEOUT_S };
export const PAUSE_PROPERTIES = {
  timeout: TIMEOUT,
  autoPause: FLAG,
  autoPauseMemory: FLAG,
  autoResume: { type: ['object', 'null'], properties: { enabled: FLAG } },
};

/** Returns what `/v1` is sent for a pause or a wake whose flag says whether the memory is kept. */
export function filesOnly(keepsMemory: boolean | null | undefined): { memory?: 'drop' } {
  return keepsMemory === false ? { memory: 'drop' } : {};
}

/**
 * Returns the policy of a sandbox, which depends on the request alone: the operator's pauses by default are not for
 * clients that expect none.
 *
 * @throws GatewayError 400
 */
export function pausePolicyOf({ timeout, autoPause, autoPauseMemory, autoResume }: PauseRequest): PausePolicy {
  const isWokenByTraffic = autoResume?.enabled === true;
  if (autoPauseMemory === false && !autoPause) throw new GatewayError(400, 'autoPauseMemory: false needs autoPause.');
  if (autoPauseMemory === false && isWokenByTraffic) {
    throw new GatewayError(
      400,
      'autoPauseMemory: false ends the programs that autoResume would wake; use one of them.',
    );
  }
  return {
    ...filesOnly(autoPauseMemory),
    onExpiry: autoPause === true,
    wake: isWokenByTraffic ? 'traffic' : 'explicit',
    wakeTtlMs: Math.max(timeout ?? 0, DEFAULT_TIMEOUT_S) * SECOND_MS,
  };
}
