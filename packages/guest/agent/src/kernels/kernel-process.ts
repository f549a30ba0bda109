import type { Socket } from 'node:net';
import { reportFailure } from '@cloche/node-support';
import { type ExecuteMessage, type FromKernel, KERNEL_SOCKET_FD } from '@cloche/protocol';
import { STANDARD_STREAMS } from '../base/standard-stream.ts';
import { findStart } from '../processes/process-tree.ts';
import { createFifos, type Fifo } from './fifo.ts';
import type { ForkedKernel } from './forked-kernel.ts';
import { KernelLink } from './kernel-link.ts';
import type { KernelListener, RunMessage, WarmUpCell } from './kernel-listener.ts';
import { KernelOsProcess } from './kernel-os-process.ts';
import type { KernelOptions, KernelSettings } from './start-kernel.ts';

/** Longest time between the end of a kernel's process and the end of its socket, in either order. */
const FINAL_OUTPUT_MS = 200;

/** Code, or a message, for a kernel to execute. */
export interface KernelRun {
  readonly id: string;
  readonly code: string;
  /** A message to answer in place of running the code. */
  readonly message?: string | undefined;
}

/** A kernel, from its start to its end. A forked kernel that does not become ready is replaced by a new process. */
export class KernelProcess {
  readonly #options: KernelOptions;
  #place: KernelSettings;
  #listener: KernelListener;
  readonly #osProcess: KernelOsProcess;
  readonly #exit = Promise.withResolvers<void>();
  #link: KernelLink | undefined;
  /** Settles when the link's socket has closed. */
  #silence = Promise.withResolvers<void>();
  #ready = false;
  /** The first cell, kept until a forked kernel has answered it, in case the kernel has to be replaced. */
  #first: ExecuteMessage | undefined;
  #hasAnswered = false;
  #warmUp: WarmUpCell | undefined;
  /** Whether a context has taken the kernel, which was started ahead. */
  #isTaken = false;
  #stopped = false;
  #exited = false;
  #stopReason: string | undefined;
  #killing: Promise<void> | undefined;

  constructor(options: KernelOptions, listener: KernelListener) {
    this.#options = options;
    this.#osProcess = new KernelOsProcess(options);
    this.#place = options.place;
    this.#listener = listener;
    this.#start().catch((error: Error) => this.#ended(`did not start: ${error.message}`, null));
  }

  get ready(): boolean {
    return this.#ready && this.#warmUp === undefined;
  }

  /** Returns whether the process runs or is about to start. Asks the system, because the exit event can be late. */
  isAlive(): boolean {
    return !this.#exited && !this.#stopped && this.#osProcess.isAlive();
  }

  /** Gives the kernel to a context. `listener` gets all events from now on, beginning with `ready`. */
  handTo(listener: KernelListener): void {
    this.#isTaken = true;
    this.#listener = listener;
    if (this.ready) queueMicrotask(() => listener.ready());
  }

  /**
   * Moves the kernel to `place`. Works for a forked kernel before its first cell; returns false otherwise. The
   * listener's `ready` is called once more afterwards.
   */
  move(place: KernelSettings): boolean {
    if (this.#osProcess.forked === undefined || this.#hasAnswered || this.#first !== undefined) return false;
    this.#place = place;
    this.#ready = false;
    this.#assign();
    return true;
  }

  /**
   * Runs a warm-up cell, unless a context has taken the kernel. A context that takes it meanwhile waits for the end.
   */
  warmUp(cell: WarmUpCell): boolean {
    if (!this.ready || this.#isTaken) return false;
    this.#warmUp = cell;
    this.#link?.send({ type: 'execute', runId: cell.runId, code: cell.code, warmUp: true });
    return true;
  }

  /** Runs a cell, or answers a message. Call it only when the kernel is ready, for one run at a time. */
  execute({ id: runId, code, message }: KernelRun): void {
    const execute: ExecuteMessage = { type: 'execute', runId, code, ...(message !== undefined && { message }) };
    if (this.#osProcess.forked && !this.#hasAnswered) this.#first = execute;
    this.#link?.send(execute);
  }

  /** Passes a client's answer to the run, which is executed. */
  answer(runId: string, message: string): void {
    this.#link?.send({ type: 'message', runId, message });
  }

  /** Interrupts the cell of that run, if the kernel executes it. */
  interrupt(runId: string): void {
    this.#link?.send({ type: 'interrupt', runId });
  }

  /** Reads everything that was printed so far. */
  drain(): void {
    this.#link?.drain();
  }

  /** Stops reading output and messages. The kernel blocks once its buffers are full. */
  pause(): void {
    this.#link?.pause();
  }

  resume(): void {
    this.#link?.resume();
  }

  /** Marks the kernel as busy: when memory runs out, a busy kernel is killed first. */
  setBusy(busy: boolean): void {
    this.#osProcess.setBusy(busy);
    this.#options.onBusy?.(busy);
  }

  /** Whether the sandbox has so many processes that the kernel hardly gets time to react to an interrupt. */
  isCrowded(): boolean {
    return this.#options.group.isCrowded();
  }

  /** Ends the kernel and everything that it started. Resolves when all processes have ended. Idempotent. */
  async stop(reason: string): Promise<void> {
    this.#stopReason ??= reason;
    this.#stopped = true;
    this.#killing ??= this.#kill();
    await Promise.all([this.#killing, this.#exit.promise]);
  }

  async #kill(): Promise<void> {
    await this.#osProcess.kill();
    if (this.#osProcess.forked) this.#link?.hangUp();
  }

  async #start(): Promise<void> {
    await this.#options.waitUntilPossible?.();
    const forked = await this.#options.takeForked?.();
    if (forked) this.#adopt(forked);
    else await this.#spawn();
  }

  async #spawn(): Promise<void> {
    const link = this.#openLink(createFifos(STANDARD_STREAMS.length, this.#options.uid, this.#options.gid));
    if (this.#stopped) {
      link.closeWriteEnds();
      throw new Error('it was stopped');
    }
    const child = this.#osProcess.start(this.#place, link);
    child.once('error', (error) => this.#ended(`did not start: ${error.message}`, null));
    child.once('exit', (code, signal) => this.#onExit(code, signal));
    this.#osProcess.joined.catch((error: NodeJS.ErrnoException) => {
      // A kernel that has ended (`ESRCH`) reports that by its `exit` event.
      if (error.code !== 'ESRCH') this.#stopSoon(`could not be given its resource limits (${error.message})`);
    });
    link.listen(child.stdio[KERNEL_SOCKET_FD] as Socket);
  }

  #adopt(forked: ForkedKernel): void {
    this.#osProcess.adopt(forked);
    const link = this.#openLink(forked.fifos);
    link.listen(forked.socket);
    if (this.#stopped) this.#kill().catch(reportFailure);
    else this.#assign();
    if (!this.#stopped && forked.socket.destroyed) this.#onForkedClosed(forked);
  }

  #assign(): void {
    this.#link?.send({ type: 'assign', cwd: this.#place.cwd, env: this.#osProcess.environmentAt(this.#place) });
  }

  #replaceForked(): void {
    this.#osProcess.abandon();
    this.#ready = false;
    this.#warmUp = undefined;
    this.#link?.close();
    this.#spawn().catch((error: Error) => this.#ended(`did not start: ${error.message}`, null));
  }

  #openLink(fifos: readonly Fifo[]): KernelLink {
    this.#silence = Promise.withResolvers();
    this.#link = new KernelLink(fifos, {
      printed: (stream, bytes) => (this.#warmUp?.listener ?? this.#listener).printed(stream, bytes),
      message: (message) => this.#stopped || this.#deliver(message),
      broken: (error) => this.#stopSoon(`broke its protocol (${error.message})`),
      closed: () => this.#onClosed(),
    });
    return this.#link;
  }

  #deliver(message: FromKernel): void {
    if (message.type === 'unfit') {
      // The sandbox differs from the template, for example in a package. A newly started kernel takes that into
      // account.
      if (!this.#osProcess.forked || this.#hasAnswered) return;
      this.#options.onMismatch?.();
      this.#replaceForked();
    } else if (message.type === 'ready') {
      this.#osProcess.joined.then(
        () => this.#becomeReady(),
        () => undefined,
      );
    } else if (this.#warmUp) {
      this.#takeWarmUp(this.#warmUp, message);
    } else {
      this.#hasAnswered = true;
      this.#first = undefined;
      this.#listener.message(message);
      if (message.type !== 'done' && message.sync !== undefined) {
        this.#link?.send({ type: 'synced', sync: message.sync });
      }
    }
  }

  #takeWarmUp(cell: WarmUpCell, message: RunMessage): void {
    cell.listener.message(message);
    if (message.type !== 'done') return;
    this.#warmUp = undefined;
    if (this.#ready) this.#listener.ready();
  }

  #becomeReady(): void {
    if (this.#ready || this.#stopped) return;
    this.#ready = true;
    // Not earlier: right after `exec` the process's files in /proc cannot be written yet.
    this.setBusy(false);
    if (this.#first) this.#link?.send(this.#first);
    else if (this.#warmUp === undefined) this.#listener.ready();
  }

  #onExit(code: number | null, signal: NodeJS.Signals | null): void {
    const reason = signal === null ? `exited with code ${code}` : `was killed by ${signal}`;
    const end = () => this.#ended(this.#stopReason ?? reason, signal);
    if (this.#link === undefined || this.#link.hasEnded) end();
    else {
      this.#silence.promise.then(end);
      // A process that has inherited the socket can keep it open.
      setTimeout(end, FINAL_OUTPUT_MS);
      this.resume();
    }
  }

  #onClosed(): void {
    this.#silence.resolve();
    const link = this.#link;
    // Without its socket the kernel cannot be controlled. Either it is just ending, or user code has closed the socket.
    const stopIfStillIts = () => this.#link === link && this.#stopSoon('closed its connection to the agent');
    setTimeout(stopIfStillIts, FINAL_OUTPUT_MS);
    if (this.#osProcess.forked) this.#onForkedClosed(this.#osProcess.forked);
  }

  /** Handles the end of a forked kernel's socket. The kernel is a child of init, so the agent gets no exit event. */
  #onForkedClosed(forked: ForkedKernel): void {
    if (this.#osProcess.forked !== forked) return;
    if (!this.ready && !this.#stopped) {
      // It died while it waited. A newly started kernel may succeed.
      this.#replaceForked();
      return;
    }
    this.resume();
    if (findStart(forked.pid) !== forked.startTicks || this.#stopped) {
      this.#ended(this.#stopReason ?? 'ended', undefined);
      return;
    }
    setTimeout(() => {
      const reason = findStart(forked.pid) === forked.startTicks ? 'closed its connection to the agent' : 'ended';
      this.#stopSoon(reason);
      this.#ended(this.#stopReason ?? reason, undefined);
    }, FINAL_OUTPUT_MS);
  }

  #ended(reason: string, signal: NodeJS.Signals | null | undefined): void {
    if (this.#exited) return;
    this.drain();
    this.#exited = true;
    this.#ready = false;
    this.#link?.close();
    this.#exit.resolve();
    // Kills the processes that the kernel left behind.
    this.#stopSoon(reason);
    this.#listener.exited(reason, signal);
  }

  #stopSoon(reason: string): void {
    this.stop(reason).catch(reportFailure);
  }
}
