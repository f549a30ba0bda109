import type { TestService } from './service.ts';

/** How a client of E2B finds a service. */
export interface E2bOptions {
  readonly apiKey: string;
  readonly apiUrl: string;
  readonly sandboxUrl: string;
  /** Older clients accept keys of E2B alone, unless this is false. */
  readonly validateApiKey: false;
  /**
   * None, because `runCode` leaves the timer of a request that was refused: it would keep the process of a test file
   * for a minute after its tests. The runner limits the time of each test.
   */
  readonly requestTimeoutMs: 0;
}

/**
 * Lifetime of a sandbox that a test uses for a while: without it the clients get 15 seconds, which a busy machine may
 * exceed.
 */
export const LASTING = { timeoutMs: 300_000 };

export function e2bOptions({ url, apiKey }: Pick<TestService, 'url' | 'apiKey'>): E2bOptions {
  return { apiKey, apiUrl: `${url}/e2b`, sandboxUrl: `${url}/e2b-box`, validateApiKey: false, requestTimeoutMs: 0 };
}
