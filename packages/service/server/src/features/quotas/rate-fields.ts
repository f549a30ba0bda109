import type { RateFields } from '../../platform/call/call.ts';
import type { Limit } from './limits.ts';
import { WINDOW_SECONDS } from './request-window.ts';

/** How much of a limit of a minute is used. */
export interface RateState {
  readonly limit: Limit;
  readonly used: number;
  /** Time until more is left than now. */
  readonly moreInSeconds: number;
}

/**
 * Returns the seconds that a client has to wait for a limit of a minute: at most 60, although a request counts until the
 * end of its second, and also after the clock was set back.
 */
export function withinMinute(seconds: number): number {
  return Math.min(Math.max(1, Math.ceil(seconds)), WINDOW_SECONDS);
}

/** Returns the fields for limits of one quota. */
export function rateFields(states: readonly RateState[]): RateFields {
  const items = states.map(({ limit: { quota, limit, projectId }, used, moreInSeconds }) => {
    const scope = projectId ?? 'organization';
    const name = quota === 'requestsPerMinute' ? `"${scope}"` : `"${scope}/sandboxes"`;
    return {
      policy: `${name};q=${limit};w=${WINDOW_SECONDS}`,
      state: `${name};r=${Math.max(0, limit - used)};t=${moreInSeconds}`,
    };
  });
  return {
    'ratelimit-policy': items.map(({ policy }) => policy).join(', '),
    ratelimit: items.map(({ state }) => state).join(', '),
  };
}
