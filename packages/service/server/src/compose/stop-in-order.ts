import type { Logger } from 'pino';

/**
 * Runs the steps one after the other. A step that fails is logged and keeps no other from running: a database that does
 * not answer must not leave the rest of a server open.
 */
export async function stopInOrder(steps: readonly (() => unknown)[], log: Pick<Logger, 'error'>): Promise<void> {
  for (const step of steps) {
    try {
      await step();
    } catch (err) {
      log.error({ operation: 'stop', outcome: 'failed', err }, 'a part of the server did not stop properly');
    }
  }
}
