import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { finished } from 'node:stream/promises';

export type LoggedCommand = {
  /** File that the command's output is appended to. */
  logFile: string;
  cwd?: string;
  /** Complete environment; this process's when left out. */
  env?: NodeJS.ProcessEnv;
  /** Standard input of the command. */
  input?: string;
  signal?: AbortSignal;
};

/** A command that failed, with the end of its output. */
export class CommandFailedError extends Error {
  readonly logFile: string;
  readonly lastLines: readonly string[];

  constructor(command: string, outcome: string, logFile: string, lastLines: readonly string[]) {
    super(`\`${command}\` ${outcome}`);
    this.name = 'CommandFailedError';
    this.logFile = logFile;
    this.lastLines = lastLines;
  }
}

/**
 * Runs a command to its end and appends its output to a log.
 * @throws {CommandFailedError} when it does not exit with 0.
 */
export async function runLogged(file: string, args: readonly string[], options: LoggedCommand): Promise<void> {
  await mkdir(dirname(options.logFile), { recursive: true });
  const log = createWriteStream(options.logFile, { flags: 'a' });
  // A log that cannot be written fails the command at its end, and not this process.
  const written = finished(log);
  written.catch(() => undefined);
  log.write(`+ ${file} ${args.join(' ')}\n`);
  const child = spawn(file, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(options.cwd !== undefined && { cwd: options.cwd }),
    ...(options.env !== undefined && { env: options.env }),
    ...(options.signal !== undefined && { signal: options.signal, killSignal: 'SIGKILL' as const }),
  });
  // A command that ends without reading its input is judged only by its exit code.
  child.stdin.on('error', () => {});
  child.stdin.end(options.input ?? '');
  child.stdout.pipe(log, { end: false });
  child.stderr.pipe(log, { end: false });

  const outcome = await new Promise<string | undefined>((resolve) => {
    child.once('error', (error) => resolve(`could not run: ${error.message}`));
    child.once('close', (code, signal) =>
      resolve(code === 0 ? undefined : signal ? `was ended by ${signal}` : `exited with ${code}`),
    );
  });
  log.end();
  await written;
  if (outcome !== undefined) {
    throw new CommandFailedError(
      [file, ...args].join(' ').slice(0, 120),
      outcome,
      options.logFile,
      await tail(options.logFile),
    );
  }
}

async function tail(file: string, lines = 12): Promise<string[]> {
  const text = await readFile(file, 'utf8');
  return text.trimEnd().split('\n').slice(-lines);
}
