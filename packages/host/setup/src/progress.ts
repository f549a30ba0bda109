import pc from 'picocolors';
import { CommandFailedError } from './run-logged.ts';

/** A failure that its reader can fix. */
export class SetupError extends Error {
  /** A sentence with the fix. */
  readonly remedy: string;

  constructor(message: string, remedy: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SetupError';
    this.remedy = remedy;
  }
}

/** A sentence with the fix, or what makes it of the failure. */
export type Remedy = string | ((error: unknown) => string);

/** Shows progress to people: a line for each step with its duration. Steps may run concurrently. */
export interface Progress {
  /**
   * Runs `work` as a step and shows its notes after the title.
   *
   * @throws {SetupError} when the work fails, after showing the failure; `remedy` is a sentence with the fix.
   */
  step<Result>(title: string, remedy: Remedy, work: (note: (text: string) => void) => Promise<Result>): Promise<Result>;
  line(text: string): void;
}

/** Shows nothing; failures still throw. */
export const silentProgress: Progress = {
  step: async (title, remedy, work) => {
    try {
      return await work(() => {});
    } catch (error) {
      throw toSetupError(title, remedy, error);
    }
  },
  line: () => {},
};

type Terminal = { isTTY?: boolean; columns?: number; write(text: string): unknown };
type RunningStep = { title: string; startedAt: number; note: string };

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const CLEAR_LINE = '\r\u001b[2K';
const FRAME_MS = 100;

/** Writes lines to a stream. On a terminal, a live line below shows the running steps with their times. */
export function createProgress(out: Terminal, now: () => number = performance.now.bind(performance)): Progress {
  const live = out.isTTY === true;
  const colors = pc.createColors(live && !process.env.NO_COLOR);
  const running = new Set<RunningStep>();
  let spinner: NodeJS.Timeout | undefined;
  let frame = 0;

  const describe = ({ title, startedAt, note }: RunningStep) => {
    const words = [title, seconds(now() - startedAt)];
    // Several steps share the line, which has space only for their titles.
    return (running.size === 1 ? [...words, note] : words).join('  ');
  };
  const draw = () => {
    const line = `${FRAMES[frame++ % FRAMES.length]} ${[...running].map(describe).join('   ')}`;
    // A wrapped line could not be cleared.
    out.write(`${CLEAR_LINE}${line.slice(0, (out.columns ?? 80) - 1)}`);
  };
  const begin = (title: string): RunningStep => {
    const step = { title, startedAt: now(), note: '' };
    running.add(step);
    if (live) spinner ??= setInterval(draw, FRAME_MS);
    return step;
  };
  const finish = (step: RunningStep, mark: string) => {
    running.delete(step);
    if (running.size === 0) {
      clearInterval(spinner);
      spinner = undefined;
    }
    const { title, startedAt, note } = step;
    const elapsed = colors.dim(seconds(now() - startedAt));
    out.write(`${live ? CLEAR_LINE : ''}${mark} ${title}  ${elapsed}${note && `  ${colors.dim(note)}`}\n`);
  };

  return {
    line: (text) => out.write(`${text}\n`),
    step: async (title, remedy, work) => {
      const step = begin(title);
      try {
        const result = await work((text) => {
          step.note = text;
        });
        finish(step, colors.green('✔'));
        return result;
      } catch (error) {
        finish(step, colors.red('✖'));
        throw toSetupError(title, remedy, error);
      }
    },
  };
}

function seconds(elapsedMs: number): string {
  return `${(elapsedMs / 1000).toFixed(1)} s`;
}

function toSetupError(title: string, remedy: Remedy, error: unknown): SetupError {
  if (error instanceof SetupError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const fix = typeof remedy === 'string' ? remedy : remedy(error);
  return new SetupError(`${title}: ${message}`, fix, { cause: error });
}

/** Returns the text to print for a failure: the cause, the end of the log, the fix. */
export function describeFailure(error: unknown): string {
  if (!(error instanceof SetupError)) return error instanceof Error ? (error.stack ?? error.message) : String(error);
  const log =
    error.cause instanceof CommandFailedError
      ? [...error.cause.lastLines.map((line) => `  │ ${line}`), `  The whole log: ${error.cause.logFile}`]
      : [];
  return [error.message, ...log, error.remedy].join('\n');
}
