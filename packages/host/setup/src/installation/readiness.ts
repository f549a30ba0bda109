import { Agent, request } from 'node:http';
import { BackOff } from '@cloche/node-support';

/** A part that starts needs the processor that each question takes. */
const PAUSES = { firstMs: 20, longestMs: 200 };
/** Keeps no connection. A new agent for each question would take longer than the question. */
const AGENT = new Agent();

/** Address of an HTTP server. */
export type Address = { socketPath: string } | { host: string; port: number };

/**
 * Resolves when `path` answers 200.
 * @throws the signal's reason when that aborts first.
 */
export async function waitUntilReady(address: Address, path: string, signal: AbortSignal): Promise<void> {
  const backOff = new BackOff(PAUSES);
  for (;;) {
    signal.throwIfAborted();
    if (await answers(address, path)) return;
    await backOff.pause(signal);
  }
}

function answers(address: Address, path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = request({ ...address, path, timeout: 2000, agent: AGENT }, (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    probe.once('timeout', () => probe.destroy());
    probe.on('error', () => resolve(false));
    probe.end();
  });
}
