import { once } from 'node:events';
import { constants } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { CliError } from './cli-error.ts';

/** Signals within this time count as one key press: a launcher and the terminal may both forward it. */
const ONE_PRESS_MS = 500;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** Longest wait, after an interruption, for the response to a creation whose result must be deleted. */
const ANSWER_MS = 3_000;
/** Options of the requests that delete, after an interruption, what the command has created. */
export const TAKING_BACK = { timeoutMs: 5_000 };

/** The user canceled the command, or the reader of its output closed the pipe. */
export class InterruptedError extends CliError {
  override readonly name = 'Interrupted';
  override readonly exitCode: number;
  readonly signal: NodeJS.Signals;
  /** Whether the command only followed what goes on without it, so that its end is no news. */
  readonly isEndOfFollowing: boolean;

  constructor(signal: NodeJS.Signals, isEndOfFollowing = false) {
    super(signal === 'SIGINT' ? 'Interrupted.' : `Ended by ${signal}.`);
    this.signal = signal;
    this.isEndOfFollowing = isEndOfFollowing && signal === 'SIGINT';
    this.exitCode = 128 + (constants.signals[signal] ?? 0);
  }
}

/**
 * Until disposed, an interruption such as Ctrl-C aborts `signal`, so that the command can clean up; a second one exits
 * at once. A closed standard output (`| head`) counts as an interruption too.
 *
 * @param follows the command only follows what goes on without it
 */
export function watchForInterruption({ follows = false } = {}): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  let first: { readonly name: NodeJS.Signals; readonly at: number } | undefined;
  const onSignal = (name: NodeJS.Signals) => {
    const at = performance.now();
    // A window closes once: its streams and the signal tell of it, however far apart.
    const isSame = first && (at - first.at <= ONE_PRESS_MS || (name === 'SIGHUP' && first.name === name));
    if (first && !isSame) process.exit(new InterruptedError(name).exitCode);
    first ??= { name, at };
    controller.abort(new InterruptedError(name, follows));
  };
  const onOutputError = (error: unknown) => {
    if (!isHangUp(error, process.stdout)) onSignal('SIGPIPE');
  };
  for (const name of SIGNALS) process.on(name, onSignal);
  process.stdout.on('error', onOutputError);
  return {
    signal: controller.signal,
    [Symbol.dispose]() {
      for (const name of SIGNALS) process.off(name, onSignal);
      process.stdout.off('error', onOutputError);
    },
  };
}

/**
 * Resolves with the result of `work`. Rejects with `InterruptedError` at a signal for which `work` has no handler.
 */
export async function untilInterruption<T>(work: () => Promise<T>): Promise<T> {
  let reject: (reason: InterruptedError) => void = () => undefined;
  const interrupted = new Promise<never>((_resolve, rejectIt) => {
    reject = rejectIt;
  });
  const onSignal = (name: NodeJS.Signals) => {
    if (process.listenerCount(name) === 1) reject(new InterruptedError(name));
  };
  for (const name of SIGNALS) process.on(name, onSignal);
  try {
    return await Promise.race([work(), interrupted]);
  } finally {
    for (const name of SIGNALS) process.off(name, onSignal);
  }
}

/**
 * Resolves with the response to a creation, also if the command is interrupted meanwhile: its id is needed for the
 * deletion. Rejects if the response takes too long after the interruption.
 */
export async function madeDespite<T>(signal: AbortSignal, making: Promise<T>): Promise<T> {
  const made = new AbortController();
  const waiting = { signal: made.signal };
  const tooLate = async (): Promise<never> => {
    if (!signal.aborted) await once(signal, 'abort', waiting);
    await delay(ANSWER_MS, undefined, waiting);
    throw signal.reason;
  };
  try {
    return await Promise.race([making, tooLate()]);
  } finally {
    made.abort();
  }
}

/** Whether an error of a stream means that the window of its terminal was closed. */
export function isHangUp(error: unknown, { isTTY }: { readonly isTTY?: boolean }): boolean {
  return isTTY === true && (error as NodeJS.ErrnoException).code === 'EIO';
}

/** Whether the standard input is a terminal whose window was closed, which ends the input as Ctrl-D does. */
export function isTerminalGone(): boolean {
  return process.stdin.isTTY === true && !isatty(process.stdin.fd);
}

/** Does what SIGHUP does. When a window closes, its streams can fail long before the signal arrives. */
export function hangUp(): void {
  if (!process.emit('SIGHUP', 'SIGHUP')) endBy('SIGHUP');
}

/** Ends this process by the signal that interrupted its command, so that a script that runs it ends, too. */
export function endBy(signal: NodeJS.Signals): void {
  // A process that a signal ends does not restore the mode of the terminal.
  if (process.stdin.isTTY && process.stdin.isRaw) process.stdin.on('error', () => undefined).setRawMode(false);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // Node.js ignores SIGPIPE, so this process is still running.
  process.exit();
}
