import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import type { CommandUser } from '@cloche/contract';
import { SANDBOX_STATUS_FACTS } from '@cloche/contract/client';
import { type Cloche, type Pty, Ptys, type SandboxInfo, type WebSocketClass } from '@cloche/sdk';
import type { Command } from 'commander';
import { chooseSandbox } from '../choose-sandbox.ts';
import { leaf, perform } from '../command.ts';
import { hangUp, watchForInterruption } from '../interruption.ts';
import { userOption } from '../option-values.ts';
import type { Session } from '../session.ts';
import { titled } from '../terminal/title.ts';
import { shortId } from '../whole-id.ts';

const END_OF_INPUT = '\x04';
/** Ctrl-C in a terminal that passes bytes unchanged. */
const INTERRUPT = '\x03';
/** Pause before the end of the input is sent again. */
const AGAIN_MS = 500;
/** Time for the question what became of the sandbox. */
const STATE_MS = 5_000;

interface ShellFlags {
  user?: CommandUser;
  pty?: string;
}

export function addShellCommand(program: Command): void {
  const shell = leaf(program, 'shell [sandbox]', 'Open a shell in a sandbox and exit with its exit code', [
    'cloche shell',
    'cloche shell sbx_…',
    'cloche shell sbx_… --user root',
    'cloche shell sbx_… --pty pty_…',
  ])
    .addOption(userOption())
    .option('--pty <id>', 'join an open terminal');
  perform(shell, openShell);
}

async function openShell(session: Session, { user, pty: id }: ShellFlags, given?: string): Promise<void> {
  const sandboxId = given ?? (await chooseSandbox(session));
  const { stdin, stdout } = process;
  const cloche = await session.connect({ webSocket: await webSocketClass() });
  const ptys = new Ptys(cloche, sandboxId as SandboxInfo['id']);
  const open = (joined: string | undefined) => {
    const size = { cols: stdout.columns, rows: stdout.rows };
    return ptys.open({ id: joined, user, ...size, onData: (data) => stdout.write(data) });
  };
  let pty = await open(id);
  using interruption = watchForInterruption();
  const { signal } = interruption;
  const interrupted = signal.aborted ? Promise.resolve() : once(signal, 'abort');
  using _title = titled(`cloche ${shortId(sandboxId)}`);
  const resize = () => pty.resize(stdout.columns, stdout.rows);
  stdout.on('resize', resize);
  const isTerminal = stdin.isTTY === true;
  if (isTerminal) forwardInput(stdin);
  let typing = type(stdin, pty);
  try {
    const exits = () => Promise.race([pty.exited, interrupted.then(() => undefined)]);
    let exitCode = await exits();
    while (isTerminal && pty.wasPaused && !signal.aborted) {
      typing[Symbol.dispose]();
      await session.terminal.err.write('\r\n');
      await session.note(`Asleep: press a key to wake the sandbox, Ctrl-C to leave.\r`);
      if (!(await isWanted(stdin, ptys, signal))) break;
      pty = await open(pty.id);
      typing = type(stdin, pty);
      exitCode = await exits();
    }
    signal.throwIfAborted();
    process.exitCode = exitCode ?? 1;
    if (exitCode === undefined) {
      if (isTerminal) restore(stdin);
      await reportDisconnection(session, cloche, sandboxId, pty.id);
    }
  } finally {
    if (isTerminal) restore(stdin);
    stdout.off('resize', resize);
    stdin.destroy();
  }
}

/** Returns a WebSocket for Node before 22, which has none of its own. */
async function webSocketClass(): Promise<WebSocketClass | undefined> {
  // Takes the same arguments, and has the members and events that a terminal uses.
  return globalThis.WebSocket ? undefined : ((await import('ws')).WebSocket as unknown as WebSocketClass);
}

/** Prints why the terminal is gone, or how to join it again. The cursor may be in the middle of a line. */
async function reportDisconnection(session: Session, cloche: Cloche, sandboxId: string, ptyId: string): Promise<void> {
  await session.terminal.err.write('\r\n');
  // Without an answer, the connection is what failed.
  const sandbox = await cloche.sandboxes.get(sandboxId, { timeoutMs: STATE_MS, maxRetries: 0 }).catch(() => undefined);
  const { id, status, destroyedReason, paused } = sandbox?.info ?? {};
  const again = `cloche shell ${sandboxId} --pty ${ptyId}`;
  if (status && SANDBOX_STATUS_FACTS[status]?.isOver)
    await session.note(`The sandbox ${id} was destroyed${destroyedReason ? ` (${destroyedReason})` : ''}.`);
  else await session.note(paused ? `The sandbox ${id} was paused. This wakes it: ${again}` : `Disconnected: ${again}`);
}

/** Makes the terminal as it was before `forwardInput`. */
function restore(stdin: NodeJS.ReadStream): void {
  if (!stdin.destroyed) stdin.setRawMode(false);
  // Node.js's raw mode is ended with the settings that it began with, to which the output processing does not belong.
  spawnSync('stty', ['opost'], { stdio: ['inherit', 'ignore', 'ignore'] });
}

/** Makes the terminal pass bytes unchanged in both directions; `setRawMode(false)` undoes it. */
function forwardInput(stdin: NodeJS.ReadStream): void {
  // A closed window ends the program by its signal.
  stdin.on('error', () => undefined);
  stdin.setRawMode(true);
  // Node.js's raw mode still adds a carriage return to each line feed in the output, which breaks full-screen programs.
  spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] });
}

/** Waits until a key is pressed or something else resumes the sandbox. Returns false if the key is Ctrl-C. */
async function isWanted(stdin: NodeJS.ReadStream, ptys: Ptys, signal: AbortSignal): Promise<boolean> {
  const left = new AbortController();
  const ended = AbortSignal.any([signal, left.signal]);
  const key = once(stdin, 'data', { signal: ended }).then(([bytes]) => String(bytes) !== INTERRUPT);
  const resumed = ptys.untilResumed({ signal: ended }).then(() => true);
  key.catch(() => undefined);
  resumed.catch(() => undefined);
  try {
    return await Promise.race([key, resumed]);
  } finally {
    left.abort();
  }
}

/** Sends what is typed to a terminal, until it is disposed. */
function type(stdin: NodeJS.ReadStream, pty: Pty): Disposable {
  // Copied, because the platform's type requires a `Uint8Array` with its own buffer.
  const send = (chunk: Buffer) => pty.write(new Uint8Array(chunk));
  // In a terminal, Ctrl-D is passed on as a byte. The end of its stdin means that its window closed, which must not end
  // the shell.
  const end = () => (stdin.isTTY ? hangUp() : endInput(pty));
  stdin.on('data', send);
  // The question for a sandbox has paused it.
  stdin.resume();
  stdin.once('end', end);
  return { [Symbol.dispose]: () => stdin.off('data', send).off('end', end) };
}

/**
 * Ends the input as a pipe does, for every later read: an end that arrives while the shell takes over the editing of
 * lines from the kernel is lost.
 */
function endInput(pty: Pty): void {
  pty.write(END_OF_INPUT);
  const timer = setInterval(() => pty.write(END_OF_INPUT), AGAIN_MS);
  pty.exited.catch(() => undefined).finally(() => clearInterval(timer));
}
