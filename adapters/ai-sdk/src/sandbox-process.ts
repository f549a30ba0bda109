import type { Command } from '@cloche/sdk';
import type { SandboxSession } from './sandbox-session.ts';

export type SandboxProcess = Awaited<ReturnType<SandboxSession['spawn']>>;

/** Makes a process of a command that was started. An abort kills it with all processes that it has started. */
export async function sandboxProcess(command: Command, abortSignal: AbortSignal | undefined): Promise<SandboxProcess> {
  const kill = async (): Promise<void> => {
    await command.kill();
  };
  // If the service cannot be reached, `wait` reports it.
  const killAtAbort = () => void kill().catch(() => undefined);
  abortSignal?.addEventListener('abort', killAtAbort, { once: true });
  if (abortSignal?.aborted) {
    await kill();
    throw abortSignal.reason;
  }
  return {
    stdout: outputOf(command, 'stdout'),
    stderr: outputOf(command, 'stderr'),
    kill,
    async wait() {
      const { exitCode = -1 } = await command.wait({ signal: abortSignal });
      abortSignal?.removeEventListener('abort', killAtAbort);
      abortSignal?.throwIfAborted();
      return { exitCode };
    },
  };
}

/**
 * Streams one of the outputs by a connection of its own, so that a reader of one need not read the other. Nothing is
 * read ahead: the service keeps the last 16 MiB for a slow reader.
 */
function outputOf(command: Command, name: 'stdout' | 'stderr'): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const cancellation = new AbortController();
  const entries = command.logs({ signal: cancellation.signal });
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const { value, done } = await entries.next();
          if (done) return controller.close();
          if (value.stream === name) return controller.enqueue(encoder.encode(value.data));
        }
      },
      cancel: (reason) => cancellation.abort(reason),
    },
    { highWaterMark: 0 },
  );
}
