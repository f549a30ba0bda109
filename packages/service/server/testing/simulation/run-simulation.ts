import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { text } from 'node:stream/consumers';

/** Runs a program of the simulation in a process of its own: beside the hooks of a test runner, promises take far longer. */
export async function runSimulation(
  program: string,
  ...given: readonly (string | number)[]
): Promise<{ code: number; output: string }> {
  const path = join(import.meta.dirname, program);
  const child = spawn(process.execPath, [path, ...given.map(String)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  return { code, output };
}

/** A process that runs one simulation after another, as its start takes longer than most of them. */
export class Simulations implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #answers: AsyncIterator<string>;

  constructor() {
    const path = join(import.meta.dirname, 'simulate.ts');
    const child = spawn(process.execPath, [path, '--lines'], { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines: Interface = createInterface({ input: child.stdout });
    [this.#child, this.#answers] = [child, lines[Symbol.asyncIterator]()];
  }

  /** Runs seeds. A call waits for the one before it. */
  async run(...given: readonly (string | number)[]): Promise<{ isKept: boolean; output: string }> {
    this.#child.stdin?.write(`${JSON.stringify(given.map(String))}\n`);
    const { value, done } = await this.#answers.next();
    if (done) throw new Error('the process has ended');
    return JSON.parse(value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = once(this.#child, 'close');
    this.#child.stdin?.end();
    await ended;
  }
}
