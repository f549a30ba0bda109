import type { Socket } from 'node:net';
import { type ExecuteMessage, type FromKernel, KERNEL_SOCKET_FD } from '@cloche/protocol';
import { STANDARD_STREAMS } from '../base/standard-stream.ts';
import { findStart } from '../processes/process-tree.ts';
import { createFifos, type Fifo } from './fifo.ts';
import type { ForkedKernel } from './forked-kernel.ts';
import { KernelBody } from './kernel-body.ts';
import { KernelLink } from './kernel-link.ts';
import type { KernelListener, RunMessage, WarmUpCell } from './kernel-listener.ts';
import type { KernelPlace, KernelSpec } from './start-kernel.ts';

/** How long after the end of a kernel's process or socket the other may take to end. */
const LAST_WORDS_MS = 200;

/** One kernel process, from its start to its end: what it says comes by its link. */
export class KernelProcess {
  readonly #spec: KernelSpec;
  #place: KernelPlace;
  #listener: KernelListener;
  readonly #body: KernelBody;
  readonly #exit = Promise.withResolvers<void>();
  #link: KernelLink | undefined;
  /** Settles with the end of the link. */
  #silence = Promise.withResolvers<void>();
  #ready = false;
  /** The first cell, until a kernel that came from outside has shown by an answer that it takes it. */
  #first: ExecuteMessage | undefined;
  #hasAnswered = false;
  #warmUp: WarmUpCell | undefined;
  /** A context has it, that it waited for. */
  #isTaken = false;
  #stopped = false;
  #exited = false;
  #stopReason: string | undefined;
  #killing: Promise<void> | undefined;

  constructor(spec: KernelSpec, listener: KernelListener) {
    this.#spec = spec;
    this.#body = new KernelBody(spec);
    this.#place = spec.place;
    this.#listener = listener;
    this.#start().catch((error: Error) => this.#ended(`did not start: ${error.message}`, null));
  }

  get ready(): boolean {
    return this.#ready && this.#warmUp === undefined;
  }

  /** Whether its process lives, or is about to. An end that nobody was told of yet counts. */
  isAlive(): boolean {
    return !this.#exited && !this.#stopped && this.#body.isAlive();
  }

  /** From now on `listener` is told, first of its being ready. */
  handTo(listener: KernelListener): void {
    this.#isTaken = true;
    this.#listener = listener;
    if (this.ready) queueMicrotask(() => listener.ready());
  }

  /**
   * Has it work there from now on, if it can: one that came from outside, before its first cell. Whoever has it is told
   * that it is ready once more.
   */
  move(place: KernelPlace): boolean {
    if (this.#body.forked === undefined || this.#hasAnswered || this.#first !== undefined) return false;
    this.#place = place;
    this.#ready = false;
    this.#assign();
    return true;
  }

  /** Runs a cell that leaves no trace, if no context has the kernel yet; one that gets it meanwhile waits for its end. */
  warmUp(cell: WarmUpCell): boolean {
    if (!this.ready || this.#isTaken) return false;
    this.#warmUp = cell;
    this.#link?.send({ type: 'execute', runId: cell.runId, code: cell.code, warmUp: true });
    return true;
  }

  /** Runs a cell. One at a time, and only when it is ready. */
  execute(runId: string, code: string): void {
    const message: ExecuteMessage = { type: 'execute', runId, code };
    if (this.#body.forked && !this.#hasAnswered) this.#first = message;
    this.#link?.send(message);
  }

  /** Interrupts the cell of that run, if it is being executed. */
  interrupt(runId: string): void {
    this.#link?.send({ type: 'interrupt', runId });
  }

  /** Takes everything that was printed up to now. */
  drain(): void {
    this.#link?.drain();
  }

  /** What it prints and sends waits in the kernel, which comes to a halt. */
  pause(): void {
    this.#link?.pause();
  }

  resume(): void {
    this.#link?.resume();
  }

  /** The busiest goes first when memory runs out. */
  setBusy(busy: boolean): void {
    this.#body.setBusy(busy);
    this.#spec.onBusy?.(busy);
  }

  /** Whether the sandbox is so full of processes that this one hardly gets to hear what it is told. */
  isCrowded(): boolean {
    return this.#spec.group.isCrowded();
  }

  /** Ends it and everything that it started. Resolves when all are gone. Idempotent. */
  async stop(reason: string): Promise<void> {
    this.#stopReason ??= reason;
    this.#stopped = true;
    this.#killing ??= this.#kill();
    await Promise.all([this.#killing, this.#exit.promise]);
  }

  async #kill(): Promise<void> {
    await this.#body.kill();
    if (this.#body.forked) this.#link?.hangUp();
  }

  async #start(): Promise<void> {
    await this.#spec.untilPossible?.();
    const forked = await this.#spec.takeForked?.();
    if (forked) this.#adopt(forked);
    else await this.#spawn();
  }

  async #spawn(): Promise<void> {
    const link = this.#openLink(await createFifos(STANDARD_STREAMS.length, this.#spec.uid, this.#spec.gid));
    if (this.#stopped) {
      link.closeWriteEnds();
      throw new Error('it was stopped');
    }
    const child = this.#body.start(this.#place, link);
    child.once('error', (error) => this.#ended(`did not start: ${error.message}`, null));
    child.once('exit', (code, signal) => this.#onExit(code, signal));
    this.#body.joined.catch((error: NodeJS.ErrnoException) => {
      // One that is gone ends in any case, and whoever waits for it learns of that.
      if (error.code !== 'ESRCH') void this.stop(`could not be given its resource limits (${error.message})`);
    });
    link.listen(child.stdio[KERNEL_SOCKET_FD] as Socket);
  }

  #adopt(forked: ForkedKernel): void {
    this.#body.adopt(forked);
    const link = this.#openLink(forked.fifos);
    link.listen(forked.socket);
    if (this.#stopped) {
      void this.#kill();
      return;
    }
    this.#assign();
    if (forked.socket.destroyed) this.#onForkedClosed(forked);
  }

  #assign(): void {
    this.#link?.send({ type: 'assign', cwd: this.#place.cwd, env: this.#body.environmentAt(this.#place) });
  }

  #replaceForked(): void {
    this.#body.abandon();
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
      broken: (error) => void this.stop(`broke its protocol (${error.message})`),
      closed: () => this.#onClosed(),
    });
    return this.#link;
  }

  #deliver(message: FromKernel): void {
    if (message.type === 'unfit') {
      // Something in the sandbox is not as it was in the template: a kernel that is started now sees it.
      if (!this.#body.forked || this.#hasAnswered) return;
      this.#spec.onMismatch?.();
      this.#replaceForked();
    } else if (message.type === 'ready') {
      this.#body.joined.then(
        () => this.#becomeReady(),
        () => undefined,
      );
    } else if (this.#warmUp) {
      this.#takeWarmUp(this.#warmUp, message);
    } else {
      this.#hasAnswered = true;
      this.#first = undefined;
      this.#listener.message(message);
      if (message.type === 'output' && message.sync !== undefined) {
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
    // Not sooner: for a moment after its program was loaded, its files in /proc are nobody's to write.
    this.setBusy(false);
    if (this.#first) this.#link?.send(this.#first);
    else if (this.#warmUp === undefined) this.#listener.ready();
  }

  #onExit(code: number | null, signal: NodeJS.Signals | null): void {
    const reason = signal === null ? `exited with code ${code}` : `was killed by ${signal}`;
    const end = () => this.#ended(this.#stopReason ?? reason, signal);
    if (this.#link === undefined || this.#link.hasEnded) {
      end();
      return;
    }
    this.#silence.promise.then(end);
    // Something may have inherited the socket and keep it open.
    setTimeout(end, LAST_WORDS_MS);
    this.resume();
  }

  #onClosed(): void {
    this.#silence.resolve();
    const link = this.#link;
    // Without its socket a kernel can be told nothing: user code has closed it, unless the kernel is just ending.
    const stopIfStillIts = () => this.#link === link && void this.stop('closed its connection to the agent');
    setTimeout(stopIfStillIts, LAST_WORDS_MS);
    if (this.#body.forked) this.#onForkedClosed(this.#body.forked);
  }

  /** What came from outside is waited for by the init of the sandbox: the end of its socket is all that is seen here. */
  #onForkedClosed(forked: ForkedKernel): void {
    if (this.#body.forked !== forked) return;
    if (!this.ready && !this.#stopped) {
      // It died while it waited: one that is started in its place may do better.
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
      void this.stop(reason);
      this.#ended(this.#stopReason ?? reason, undefined);
    }, LAST_WORDS_MS);
  }

  #ended(reason: string, signal: NodeJS.Signals | null | undefined): void {
    if (this.#exited) return;
    this.drain();
    this.#exited = true;
    this.#ready = false;
    this.#link?.close();
    this.#exit.resolve();
    // What it leaves behind ends with it.
    void this.stop(reason);
    this.#listener.exited(reason, signal);
  }
}
