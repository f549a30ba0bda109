import { constants } from 'node:os';
import { CliError } from './cli-error.ts';

/** Signals within this time count as one key press: a launcher and the terminal may both forward it. */
const ONE_PRESS_MS = 500;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

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
  let firstAt: number | undefined;
  const onSignal = (name: NodeJS.Signals) => {
    const now = performance.now();
    if (firstAt !== undefined && now - firstAt > ONE_PRESS_MS) process.exit(new InterruptedError(name).exitCode);
    firstAt ??= now;
    controller.abort(new InterruptedError(name, follows));
  };
  const onOutputError = () => onSignal('SIGPIPE');
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
