import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { GUEST_PATH } from '@cloche/layout';
import { openSocketPair, sendDescriptors } from '../linux/descriptor-passing.ts';
import { type ZygoteReport, ZygoteReports } from './zygote-reports.ts';

const ENTER_TEMPLATE = fileURLToPath(new URL('enter-template.ts', import.meta.url));
const PYTHON = '/usr/bin/python3';
const PROGRAM = `${GUEST_PATH}/python/cloche_zygote`;

/** A fork takes milliseconds; this ends only the wait for a child that died before it entered. */
const FORK_TIMEOUT_MS = 5_000;
const MAX_PENDING = 256;
const MAX_ERROR_CHARACTERS = 4_096;

export interface ForkRequest {
  /** A name for the kernel, unique in its sandbox. */
  kernelId: string;
  /** Descriptors of the sandbox's namespaces, then of each control group. The caller owns and closes them. */
  fds: readonly number[];
}

/** A running zygote. It ends with this process. */
export class ZygoteProcess {
  /** Resolves when kernels can be forked; rejects when the zygote ended before. */
  readonly ready: Promise<void>;
  /** Resolves with the end of the zygote's standard error. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  readonly #controlFd: number;
  readonly #control: Socket;
  readonly #pending = new Map<number, PromiseWithResolvers<void>>();
  readonly #isReady = Promise.withResolvers<void>();
  #lastId = 0;
  #errorOutput = '';
  readonly #reports = new ZygoteReports();

  /** @param rootDir mount point of the template, with the guest folder mounted in it. */
  constructor(rootDir: string, setup: string) {
    const [ours, theirs] = openSocketPair();
    this.#controlFd = ours;
    this.#control = new Socket({ fd: ours, readable: true, writable: true });
    this.#child = spawn(process.execPath, [ENTER_TEMPLATE, rootDir, PYTHON, PROGRAM], {
      stdio: ['ignore', 'ignore', 'pipe', theirs],
      env: {},
    });
    // Also after its end: signals to it may fail.
    this.#child.on('error', () => undefined);
    this.#control.on('error', () => this.#control.destroy());
    closeSync(theirs);
    this.ready = this.#isReady.promise;
    this.ended = this.#watch();
    sendDescriptors(ours, setup, []);
  }

  /**
   * Resolves when the forked child is inside the sandbox, with no more rights than the sandbox's root; then it connects
   * to its agent.
   */
  async fork({ kernelId, fds }: ForkRequest): Promise<void> {
    if (this.#pending.size >= MAX_PENDING) throw new Error(`${MAX_PENDING} forks are under way already`);
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = Promise.withResolvers<void>();
    this.#pending.set(id, answer);
    const timer = setTimeout(() => answer.reject(new Error('the zygote does not answer')), FORK_TIMEOUT_MS);
    try {
      sendDescriptors(this.#controlFd, JSON.stringify({ id, kernelId }), fds);
      await answer.promise;
    } finally {
      clearTimeout(timer);
      this.#pending.delete(id);
    }
  }

  /** Stops the zygote after the forks under way. */
  async retire(): Promise<void> {
    await Promise.allSettled([...this.#pending.values()].map(({ promise }) => promise));
    await this.stop();
  }

  /** Kills the zygote and resolves when it has ended. Forked kernels keep running. Idempotent. */
  async stop(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
  }

  async #watch(): Promise<string> {
    this.ready.catch(() => undefined);
    this.#child.stderr?.on('error', () => undefined);
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#errorOutput = (this.#errorOutput + text).slice(-MAX_ERROR_CHARACTERS);
    });
    this.#control.setEncoding('utf8').on('data', (text: string) => this.#read(text));
    const failure = await Promise.race([
      once(this.#child, 'close').then(() => undefined),
      once(this.#child, 'error').then(([error]) => String(error)),
    ]).catch(String);
    const reason = new Error(`the zygote ended: ${failure ?? this.#errorOutput.trim().split('\n').at(-1)}`);
    this.#control.destroy();
    this.#isReady.reject(reason);
    for (const answer of this.#pending.values()) answer.reject(reason);
    return failure ?? this.#errorOutput;
  }

  #read(text: string): void {
    try {
      for (const report of this.#reports.read(text)) this.#take(report);
    } catch (error) {
      // It does not follow the protocol any more. The next kernels are started in another way.
      this.#errorOutput = String(error);
      this.#child.kill('SIGKILL');
    }
  }

  #take({ type, id = 0, message }: ZygoteReport): void {
    if (type === 'ready') this.#isReady.resolve();
    else if (type === 'entered') this.#pending.get(id)?.resolve();
    else this.#pending.get(id)?.reject(new Error(message));
  }
}
