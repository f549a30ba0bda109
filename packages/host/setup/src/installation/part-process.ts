import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { RotatingLog } from './rotating-log.ts';

export type PartCommand = { command: [file: string, args: string[]]; env: Record<string, string> };

/** A process of a part. */
export class PartProcess {
  /** Resolves with a description of the process's end for people. Never rejects. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;

  constructor({ command: [file, args], env }: PartCommand, log: RotatingLog) {
    // A separate session: an interrupt at the terminal reaches only this process, which stops the parts in order.
    const child = spawn(file, args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    for (const output of [child.stdout, child.stderr]) {
      output.on('data', (chunk: Buffer) => log.write(chunk));
      // Its lines are then lost; the part goes on.
      output.on('error', () => undefined);
    }
    // Also after its end: signals to it may fail.
    child.on('error', () => undefined);
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

  /** Sends SIGTERM, and SIGKILL after `graceMs`. Resolves when the process has ended. */
  async stop(graceMs: number): Promise<void> {
    if (this.hasEnded) return;
    this.kill('SIGTERM');
    const force = setTimeout(() => this.kill('SIGKILL'), graceMs);
    await this.ended;
    clearTimeout(force);
  }
}
