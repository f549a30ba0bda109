import { orAbort } from '@cloche/node-support';
import type { Cloche } from '@cloche/sdk';

type Creation = ReturnType<Cloche['sandboxes']['create']>;

/**
 * Creates a sandbox. If the MCP client cancels the call before the answer, the sandbox is destroyed, because the client
 * never learns its id.
 *
 * @throws {ClocheError} if it is refused, or the reason of `signal`
 */
export function createSandbox(
  cloche: Cloche,
  body: Parameters<Cloche['sandboxes']['create']>[0],
  signal: AbortSignal,
): Creation {
  const creation = cloche.sandboxes.create(body);
  return orAbort(creation, signal).catch((error) => {
    if (signal.aborted) {
      creation.then((late) => late.kill()).catch(() => undefined);
    }
    throw error;
  });
}
