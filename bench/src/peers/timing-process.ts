import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

type Child = ChildProcessByStdio<Writable, Readable, null>;

/** A program that reads acts, one JSON object a line, and answers each with the milliseconds that it took. */
export class TimingProcess implements AsyncDisposable {
  readonly #program: string;
  readonly #child: Child;
  readonly #answers: AsyncIterator<string>;
  readonly #lines: Interface;

  constructor(command: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env) {
    this.#program = [command, ...args].join(' ');
    this.#child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#child.stdout });
    this.#answers = this.#lines[Symbol.asyncIterator]();
  }

  async time(act: object): Promise<number> {
    this.#child.stdin.write(`${JSON.stringify(act)}\n`);
    const { value, done } = await this.#answers.next();
    if (done) throw new Error(`${this.#program} ended`);
    return JSON.parse(value).ms;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = once(this.#child, 'exit');
      this.#child.stdin.end();
      await ended;
    }
    this.#lines.close();
  }
}
