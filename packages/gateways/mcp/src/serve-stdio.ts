import type { Readable, Writable } from 'node:stream';
import type { SandboxId } from '@cloche/contract';
import { Deadline, reportFailure } from '@cloche/node-support';
import type { Cloche } from '@cloche/sdk';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { mcpServer } from './mcp-server.ts';
import { ProcessSession } from './sessions/process-session.ts';
import { followSubscriptions } from './subscriptions/follow-subscriptions.ts';

export interface StdioOptions {
  readonly cloche: Cloche;
  readonly version: string;
  readonly input: Readable;
  readonly output: Writable;
}

/** Longest time for which the end of a process waits for that of its sandbox, which also ends by itself. */
const ENDING_MS = 5_000;

/**
 * Serves the Model Context Protocol to the host that has started this process. Resolves when the host closes the input,
 * and the sandbox of the session has been destroyed.
 */
export async function serveOnStdio({ cloche, version, input, output }: StdioOptions): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    input.once('end', resolve).once('close', resolve);
  });
  const session = new ProcessSession();
  const transport = new StdioServerTransport(input, output);
  const closing = new AbortController();
  const handle = serveStdio(
    () => {
      const server = mcpServer({ cloche, version, session, hasStream: true });
      const tell = (uri: string) => server.server.sendResourceUpdated({ uri });
      followSubscriptions({ cloche, session, signal: closing.signal, tell }).catch(reportFailure);
      return server;
    },
    { transport },
  );
  await ended;
  closing.abort();
  // Aborts the calls in progress, which ends what they do in sandboxes.
  await handle.close();
  const sandboxId = session.end();
  if (sandboxId === undefined) return;
  const params = { sandboxId: sandboxId as SandboxId };
  using limit = new Deadline(ENDING_MS);
  await cloche.call('killSandbox', { params, signal: limit.signal }).catch(() => undefined);
}
