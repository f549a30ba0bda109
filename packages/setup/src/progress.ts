import pc from 'picocolors';
import { CommandFailed } from './run-logged.ts';

/** A failure that its reader can do something about. */
export class SetupProblem extends Error {
  /** One sentence saying what to do. */
  readonly remedy: string;

  constructor(message: string, remedy: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SetupProblem';
    this.remedy = remedy;
  }
}

/** Tells people how far we are: one line for each step, with the time that it took. Steps may run at the same time. */
export interface Progress {
  /**
   * Runs `work` as a step. What the work notes is shown behind the title.
   *
   * @throws {SetupProblem} when the work fails, after saying so; `remedy` is one sentence that says what to do.
   */
  step<Result>(title: string, remedy: string, work: (note: (text: string) => void) => Promise<Result>): Promise<Result>;
  line(text: string): void;
}

/** Says nothing; failures still throw. */
export const silentProgress: Progress = {
  step: async (title, remedy, work) => {
    try {
      return await work(() => {});
    } catch (error) {
      throw asProblem(title, remedy, error);
    }
  },
  line: () => {},
};

type Terminal = { isTTY?: boolean; columns?: number; write(text: string): unknown };
type RunningStep = { title: string; startedAt: number; note: string };

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const CLEAR_LINE = '\r\u001b[2K';
const FRAME_MS = 100;

/** Lines on a stream; on a terminal, below them a moving one with the times so far of the steps that run. */
export function createProgress(out: Terminal, now: () => number = performance.now.bind(performance)): Progress {
  const live = out.isTTY === true;
  const colors = pc.createColors(live && !process.env.NO_COLOR);
  const running = new Set<RunningStep>();
  let spinner: NodeJS.Timeout | undefined;
  let frame = 0;

  const describe = ({ title, startedAt, note }: RunningStep) => {
    const words = [title, seconds(now() - startedAt)];
    // Several share the line, so it has place for their titles alone.
    return (running.size === 1 ? [...words, note] : words).join('  ');
  };
  const draw = () => {
    const line = `${FRAMES[frame++ % FRAMES.length]} ${[...running].map(describe).join('   ')}`;
    // One that is wrapped cannot be cleared.
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
        throw asProblem(title, remedy, error);
      }
    },
  };
}

function seconds(elapsedMs: number): string {
  return `${(elapsedMs / 1000).toFixed(1)} s`;
}

function asProblem(title: string, remedy: string, error: unknown): SetupProblem {
  if (error instanceof SetupProblem) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new SetupProblem(`${title}: ${message}`, remedy, { cause: error });
}

/** What to print for a failure: what happened, the end of the log, what to do. */
export function describeProblem(error: unknown): string {
  if (!(error instanceof SetupProblem)) return error instanceof Error ? (error.stack ?? error.message) : String(error);
  const log =
    error.cause instanceof CommandFailed
      ? [...error.cause.lastLines.map((line) => `  │ ${line}`), `  The whole log: ${error.cause.logFile}`]
      : [];
  return [error.message, ...log, error.remedy].join('\n');
}
