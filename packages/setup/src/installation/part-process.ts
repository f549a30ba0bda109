import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { RotatingLog } from './rotating-log.ts';

export type PartCommand = { command: [file: string, args: string[]]; env: Record<string, string> };

/** One process of a part. */
export class PartProcess {
  /** Resolves with what to call its end, for people. Never rejects. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;

  constructor({ command: [file, args], env }: PartCommand, log: RotatingLog) {
    // A session of its own: an interrupt at the terminal reaches us alone, and we end the parts in order.
    const child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    child.stdout.on('data', (chunk: Buffer) => log.write(chunk));
    child.stderr.on('data', (chunk: Buffer) => log.write(chunk));
    this.#child = child;
    this.ended = Promise.race([
      once(child, 'close').then(([code, signal]) => (signal ? `ended by ${signal}` : `exited with ${code}`)),
      once(child, 'error').then(([error]) => `could not run: ${error}`),
    ]).catch((error: unknown) => `could not run: ${error}`);
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null || this.#child.pid === undefined;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Asks it to end; makes it end after `graceMs`. Resolves when it has. */
  async stop(graceMs: number): Promise<void> {
    if (this.hasEnded) return;
    this.kill('SIGTERM');
    const force = setTimeout(() => this.kill('SIGKILL'), graceMs);
    await this.ended;
    clearTimeout(force);
  }
}
