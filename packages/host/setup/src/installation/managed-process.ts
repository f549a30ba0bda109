import { BackOff, pause, processorMs, reportFailure, untilIdle } from '@cloche/node-support';
import { SetupError } from '../progress.ts';
import { type PartCommand, PartProcess } from './part-process.ts';
import type { ProcessName } from './parts.ts';
import type { RotatingLog } from './rotating-log.ts';

const PAUSES = { firstMs: 100, longestMs: 10_000 };
/** Lifetime after which the pause before a restart is the shortest again. */
const STEADY_MS = 30_000;
/** Windows without an answer after which a process counts as failed even if it computes. */
const MOST_WINDOWS = 20;

export type ManagedProcessOptions = {
  name: ProcessName;
  command: PartCommand;
  log: RotatingLog;
  /** Resolves when the part answers. */
  ready: (signal: AbortSignal) => Promise<void>;
  /** Time without an answer after which a process that does not compute counts as failed. */
  readyTimeoutMs: number;
  /** Time between SIGTERM and SIGKILL. */
  stopGraceMs: number;
  /** Called with each new process of the part, right after its start. */
  onSpawn: (pid: number) => void;
  /** Whether to restart the part when it dies. */
  supervise: boolean;
  /** Shows a line to the operator. */
  report: (line: string) => void;
};

/** A part of an installation, across restarts of its process. */
export class ManagedProcess {
  readonly #options: ManagedProcessOptions;
  #process: PartProcess | undefined;
  #stopping = new AbortController();

  constructor(options: ManagedProcessOptions) {
    this.#options = options;
  }

  get pid(): number | undefined {
    return this.#process?.hasEnded ? undefined : this.#process?.pid;
  }

  /**
   * Resolves when the part answers.
   * @throws {SetupError} when it ends before that, or takes too long.
   */
  async start(): Promise<void> {
    this.#stopping = new AbortController();
    const process = this.#spawn();
    await this.#untilReady(process);
    if (this.#options.supervise) this.#watch(process, this.#stopping.signal).catch(reportFailure);
  }

  kill(signal: NodeJS.Signals): void {
    this.#process?.kill(signal);
  }

  /** Stops the part. Idempotent. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#process?.stop(this.#options.stopGraceMs);
  }

  #spawn(): PartProcess {
    const process = new PartProcess(this.#options.command, this.#options.log);
    this.#process = process;
    try {
      if (process.pid !== undefined) this.#options.onSpawn(process.pid);
    } catch (error) {
      // The part serves nevertheless.
      this.#options.report(`${this.#options.name}: ${error}`);
    }
    return process;
  }

  async #untilReady(process: PartProcess): Promise<void> {
    const { name, ready, readyTimeoutMs, stopGraceMs, log } = this.#options;
    const waiting = new AbortController();
    const begun = performance.now();
    const windows = { windowMs: readyTimeoutMs, mostWindows: MOST_WINDOWS };
    const idle = untilIdle(() => processorMs(process.pid), windows, waiting.signal).then(() => waiting.abort());
    idle.catch(reportFailure);
    const died = process.ended.then((how) => Promise.reject(this.#failure(`${name} ${how} before it was ready.`)));
    try {
      await Promise.race([ready(waiting.signal), died]);
    } catch (error) {
      await process.stop(stopGraceMs);
      if (error instanceof SetupError) throw error;
      const seconds = Math.round((performance.now() - begun) / 1000);
      throw this.#failure(`${name} was not ready after ${seconds} s, and computes no more (log: ${log.file}).`);
    } finally {
      waiting.abort();
      died.catch(() => {});
    }
  }

  #failure(message: string): SetupError {
    const lines = this.#options.log.recentLines().map((line) => `  │ ${line}`);
    return new SetupError([message, ...lines].join('\n'), `The whole log: ${this.#options.log.file}`);
  }

  async #watch(first: PartProcess, stopping: AbortSignal): Promise<void> {
    const backOff = new BackOff(PAUSES);
    let process: PartProcess | undefined = first;
    let failure = '';
    for (;;) {
      const since = performance.now();
      const how = (await process?.ended) ?? failure;
      if (stopping.aborted) return;
      if (performance.now() - since > STEADY_MS) backOff.reset();
      const pauseMs = backOff.next();
      this.#options.report(`${this.#options.name} ${how}; starting it again in ${pauseMs / 1000} s`);
      await pause(pauseMs, stopping);
      if (stopping.aborted) return;
      try {
        process = this.#spawn();
      } catch (error) {
        // Such as no memory or no descriptor. The other parts go on, and this one is tried again.
        process = undefined;
        failure = `could not run: ${error}`;
      }
    }
  }
}
