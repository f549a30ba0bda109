import { constants } from 'node:os';
import { CliError } from './cli-error.ts';

/** A launcher and the terminal may both pass on one key press. */
const ONE_PRESS_MS = 500;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** The user, or whoever reads the output, wants no more of it. */
export class Interrupted extends CliError {
  override readonly name = 'Interrupted';
  override readonly exitCode: number;
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`Canceled by ${signal}.`);
    this.signal = signal;
    this.exitCode = 128 + (constants.signals[signal] ?? 0);
  }
}

/**
 * Until disposed, Ctrl-C and its like abort `signal` so that the command can clean up; a second one ends the process
 * at once. A closed standard output (`| head`) counts as one too.
 */
export function watchForInterruption(): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  let firstAt: number | undefined;
  const onSignal = (name: NodeJS.Signals) => {
    const now = performance.now();
    if (firstAt !== undefined && now - firstAt > ONE_PRESS_MS) process.exit(new Interrupted(name).exitCode);
    firstAt ??= now;
    controller.abort(new Interrupted(name));
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
