import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import type { KernelError, ToKernel } from '@cloche/protocol';
import { buildKernelJs } from '../src/build/build-kernel-js.ts';
import { kernelJsFlags } from '../src/build/kernel-js-flags.ts';
import type { Language } from '../src/messages.ts';

export interface Output {
  role: 'result' | 'display';
  forms: Record<string, unknown>;
}

/** Everything received about one run until its `done`. */
export interface RunRecord {
  stdout: string;
  stderr: string;
  outputs: Output[];
  executionCount: number;
  error?: KernelError;
  /** `text/plain` of the result. */
  result?: string;
}

/** The kernel's reply to a message of a client. */
export interface Reply {
  readonly type: string;
  // biome-ignore lint/suspicious/noExplicitAny: a reply is asserted on, field by field
  readonly content: any;
}

type Frame = { type: string; runId?: string } & Record<string, unknown>;

let builtKernel: Promise<string> | undefined;

/** Returns the folder of a kernel, built once for this process, whose end removes it. */
export function builtKernelDir(): Promise<string> {
  builtKernel ??= (async () => {
    const dir = await mkdtemp(join(tmpdir(), 'cloche-kernel-js-'));
    process.once('exit', () => rmSync(dir, { recursive: true, force: true }));
    await buildKernelJs(dir, process.execPath);
    return dir;
  })();
  return builtKernel;
}

/** A real kernel process, with the agent's ends of its socket and pipes. */
export class KernelProcess implements AsyncDisposable {
  readonly child: ChildProcess;
  readonly frames: Frame[] = [];
  readonly #socket: Socket;
  readonly #died: Promise<never>;
  readonly #printed = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  #received = Buffer.alloc(0);
  #runs = 0;
  #onChange: (() => void)[] = [];

  private constructor(child: ChildProcess) {
    this.child = child;
    this.#died = once(child, 'exit').then(([code, signal]) => {
      throw new Error(`The kernel died (${code ?? signal}): ${this.stderr}`);
    });
    this.#died.catch(() => {});
    this.#socket = child.stdio[3] as Socket;
    this.#socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    // A killed kernel resets the connection if it has not read everything. Its exit says that it has ended.
    this.#socket.on('error', () => undefined);
    for (const name of ['stdout', 'stderr'] as const) {
      (child[name] as Readable).on('data', (chunk: Buffer) => {
        this.#printed[name].push(chunk);
        this.#changed();
      });
    }
  }

  static async start(
    language: Language = 'javascript',
    { cwd = tmpdir(), env = {} as Record<string, string> } = {},
  ): Promise<KernelProcess> {
    const dir = await builtKernelDir();
    const child = spawn(process.execPath, [...kernelJsFlags, join(dir, 'main.cjs'), language], {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    });
    const kernel = new KernelProcess(child);
    await kernel.until(() => kernel.frames.some(({ type }) => type === 'ready'));
    return kernel;
  }

  /** Runs a cell to its end. */
  async run(code: string): Promise<RunRecord> {
    return this.finished(this.execute(code));
  }

  /** Starts a cell and returns the id of its run. */
  execute(code: string): string {
    this.#printed.stdout = [];
    this.#printed.stderr = [];
    return this.#start({ code });
  }

  /** Sends a message of a client and returns the id of its run. */
  executeMessage(message: string): string {
    return this.#start({ code: '', message });
  }

  /** Sends a message of a client and returns the reply of the kernel. */
  async ask(message: object): Promise<Reply> {
    const runId = this.executeMessage(JSON.stringify(message));
    await this.finished(runId);
    const reply = this.frames.find((frame) => frame.type === 'message' && frame.runId === runId);
    return JSON.parse(String(reply?.message));
  }

  #start(run: { code: string; message?: string }): string {
    this.#runs += 1;
    const runId = `run_${this.#runs}`;
    this.send({ type: 'execute', runId, ...run });
    return runId;
  }

  interrupt(runId: string): void {
    this.send({ type: 'interrupt', runId });
  }

  send(message: ToKernel): void {
    const body = Buffer.from(JSON.stringify(message));
    const header = Buffer.alloc(4);
    header.writeUInt32BE(body.length);
    this.#socket.write(Buffer.concat([header, body]));
  }

  async finished(runId: string): Promise<RunRecord> {
    const isDone = (frame: Frame) => frame.type === 'done' && frame.runId === runId;
    await this.until(() => this.frames.some(isDone));
    // Pipes and socket are read independently, so this waits for output that was written before `done`.
    await this.#drained();
    const done = this.frames.find(isDone) as unknown as { executionCount: number; error?: KernelError };
    const outputs = this.frames.filter(
      (frame) => frame.type === 'output' && frame.runId === runId,
    ) as unknown as Output[];
    const result = outputs.find(({ role }) => role === 'result')?.forms['text/plain'];
    return {
      stdout: this.stdout,
      stderr: this.stderr,
      outputs,
      executionCount: done.executionCount,
      ...(done.error && { error: done.error }),
      ...(typeof result === 'string' && { result }),
    };
  }

  /** Closes the agent's end of the socket. */
  hangUp(): void {
    this.#socket.destroy();
  }

  get stdout(): string {
    return Buffer.concat(this.#printed.stdout).toString();
  }

  get stderr(): string {
    return Buffer.concat(this.#printed.stderr).toString();
  }

  /** Resolves when `condition` holds. Checks it whenever something arrives. Rejects if the kernel ends. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      await Promise.race([new Promise<void>((resolve) => this.#onChange.push(resolve)), this.#died]);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await exited;
  }

  async #drained(): Promise<void> {
    let length = -1;
    for (let round = 0; round < 100_000 && length !== this.stdout.length + this.stderr.length; round += 1) {
      length = this.stdout.length + this.stderr.length;
      for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #receive(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk]);
    while (this.#received.length >= 4) {
      const end = 4 + this.#received.readUInt32BE();
      if (this.#received.length < end) break;
      this.frames.push(JSON.parse(this.#received.toString('utf8', 4, end)));
      this.#received = this.#received.subarray(end);
    }
    this.#changed();
  }

  #changed(): void {
    for (const resolve of this.#onChange.splice(0)) resolve();
  }
}
