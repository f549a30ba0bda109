import type { Readable, Writable } from 'node:stream';
import type { Cloche } from '@cloche/sdk';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { mcpServer } from './mcp-server.ts';

export interface StdioOptions {
  readonly cloche: Cloche;
  readonly version: string;
  readonly input: Readable;
  readonly output: Writable;
}

/**
 * Serves the Model Context Protocol to the host that has started this process. Resolves when the host closes the input.
 */
export async function serveOnStdio({ cloche, version, input, output }: StdioOptions): Promise<void> {
  const ended = new Promise<void>((resolve) => {
    input.once('end', resolve).once('close', resolve);
  });
  const transport = new StdioServerTransport(input, output);
  const handle = serveStdio(() => mcpServer(cloche, version), { transport });
  await ended;
  // Aborts the calls in progress, which ends what they do in sandboxes.
  await handle.close();
}
