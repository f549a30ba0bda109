import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';

const RETRY_MS = 20;

/** Address of an HTTP server. */
export type Address = { socketPath: string } | { host: string; port: number };

/**
 * Resolves when `path` answers 200.
 * @throws the signal's reason when that aborts first.
 */
export async function waitUntilReady(address: Address, path: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    if (await answers(address, path)) return;
    await delay(RETRY_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
}

function answers(address: Address, path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = request({ ...address, path, timeout: 2000, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    probe.once('timeout', () => probe.destroy());
    probe.on('error', () => resolve(false));
    probe.end();
  });
}
