import type { Command } from 'commander';
import { leaf, perform } from '../command.ts';
import type { Session } from '../session.ts';
import { VERSION } from '../version.ts';

export function addMcpCommand(program: Command): void {
  const command = leaf(program, 'mcp', 'Serve sandboxes as tools to a host of the Model Context Protocol', [
    'claude mcp add cloche -- npx cloche mcp',
  ]).addHelpText('after', '\nA host starts it and speaks to it by standard input and output.');
  perform(command, serve);
}

async function serve(session: Session): Promise<void> {
  const cloche = await session.connect();
  // Loaded only here: the protocol's library is larger than the rest of the command line.
  const { serveOnStdio } = await import('@cloche/mcp/stdio');
  await serveOnStdio({ cloche, version: VERSION, input: process.stdin, output: process.stdout });
}
