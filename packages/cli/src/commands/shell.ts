import { spawnSync } from 'node:child_process';
import type { CommandUser } from '@cloche/contract';
import { type Pty, Ptys, type SandboxInfo, type WebSocketClass } from '@cloche/sdk';
import type { Command } from 'commander';
import { leaf, perform } from '../command.ts';
import { userOption } from '../option-values.ts';
import type { Session } from '../session.ts';

const END_OF_INPUT = '\x04';

interface ShellFlags {
  user?: CommandUser;
  pty?: string;
}

export function addShellCommand(program: Command): void {
  const shell = leaf(program, 'shell <sandbox>', 'Open a shell in a sandbox and exit with its exit code', [
    'cloche shell sbx_…',
    'cloche shell sbx_… --user root',
    'cloche shell sbx_… --pty pty_…',
  ])
    .addOption(userOption())
    .option('--pty <id>', 'join an open terminal');
  perform(shell, openShell);
}

async function openShell(session: Session, { user, pty: id }: ShellFlags, sandboxId: string): Promise<void> {
  const { stdin, stdout } = process;
  const cloche = await session.connect({ webSocket: await webSocketClass() });
  const ptys = new Ptys(cloche, sandboxId as SandboxInfo['id']);
  const pty = await ptys.open({
    id,
    user,
    cols: stdout.columns,
    rows: stdout.rows,
    onData: (data) => stdout.write(data),
  });
  const resize = () => pty.resize(stdout.columns, stdout.rows);
  stdout.on('resize', resize);
  const isTerminal = stdin.isTTY === true;
  if (isTerminal) forwardInput(stdin);
  type(stdin, pty);
  try {
    const exitCode = await pty.exited;
    process.exitCode = exitCode ?? 1;
    if (exitCode === undefined) await reportDisconnection(session, `cloche shell ${sandboxId} --pty ${pty.id}`);
  } finally {
    if (isTerminal) stdin.setRawMode(false);
    stdout.off('resize', resize);
    stdin.destroy();
  }
}

/** Returns a WebSocket for Node before 22, which has none of its own. */
async function webSocketClass(): Promise<WebSocketClass | undefined> {
  // Takes the same arguments, and has the members and events that a terminal uses.
  return globalThis.WebSocket ? undefined : ((await import('ws')).WebSocket as unknown as WebSocketClass);
}

/** Prints how to reconnect. The terminal is still raw, and the cursor may be in the middle of a line. */
async function reportDisconnection(session: Session, again: string): Promise<void> {
  await session.terminal.err.write('\r\n');
  await session.note(`Disconnected: ${again}`);
}

/** Makes the terminal pass bytes unchanged in both directions; `setRawMode(false)` undoes it. */
function forwardInput(stdin: NodeJS.ReadStream): void {
  stdin.setRawMode(true);
  // Node.js's raw mode still adds a carriage return to each line feed in the output, which breaks full-screen programs.
  spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] });
}

function type(stdin: NodeJS.ReadStream, pty: Pty): void {
  // Copied, because the platform's type requires a `Uint8Array` with its own buffer.
  stdin.on('data', (chunk: Buffer) => pty.write(new Uint8Array(chunk)));
  // In a terminal, Ctrl-D is passed on as a byte. The end of its stdin means that its window closed, which must not end
  // the shell.
  stdin.once('end', () => (stdin.isTTY ? pty.close() : pty.write(END_OF_INPUT)));
}
