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

/** Tells people how far we are: one line for each step, with the time that it took. */
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

type Terminal = { isTTY?: boolean; write(text: string): unknown };

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const CLEAR_LINE = '\r\u001b[2K';

/** Lines on a stream; on a terminal, a moving one with the time so far while a step runs. */
export function createProgress(out: Terminal, now: () => number = performance.now.bind(performance)): Progress {
  const live = out.isTTY === true;
  const colors = pc.createColors(live && !process.env.NO_COLOR);

  return {
    line: (text) => out.write(`${text}\n`),
    step: async (title, remedy, work) => {
      const startedAt = now();
      let note = '';
      let frame = 0;
      const elapsed = () => seconds(now() - startedAt);
      const draw = () => out.write(`${CLEAR_LINE}${FRAMES[frame++ % FRAMES.length]} ${title}  ${elapsed()}  ${note}`);
      const spinner = live ? setInterval(draw, 100) : undefined;
      const finish = (mark: string) => {
        clearInterval(spinner);
        out.write(
          `${live ? CLEAR_LINE : ''}${mark} ${title}  ${colors.dim(elapsed())}${note && `  ${colors.dim(note)}`}\n`,
        );
      };
      try {
        const result = await work((text) => {
          note = text;
        });
        finish(colors.green('✔'));
        return result;
      } catch (error) {
        finish(colors.red('✖'));
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
