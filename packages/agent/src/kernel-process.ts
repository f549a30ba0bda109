import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import {
  type AssignMessage,
  type FromKernel,
  KERNEL_SOCKET_FD,
  type SyncedMessage,
  type ToKernel,
} from '@cloche/protocol';
import { createFifos, type Fifo } from './fifo.ts';
import type { ForkedKernel } from './forked-kernels.ts';
import { encodeFrame, FrameDecoder } from './frames.ts';
import type { KernelCommand } from './kernel-launch.ts';
import { readKernelMessage } from './kernel-messages.ts';
import type { KernelsGroup } from './kernels-group.ts';
import { setOomScore } from './memory.ts';
import { OutputPipe } from './output-pipe.ts';
import { findStart, KERNEL_MARK, killTree } from './process-tree.ts';
import { randomHex } from './random-hex.ts';

/** How long after the end of a kernel's process or socket the other may take to end. */
const LAST_WORDS_MS = 200;
/** In hexadecimal digits it fills the room that forked kernels have for it. */
const MARK_BYTES = 18;

const STREAMS = ['stdout', 'stderr'] as const;

export type StandardStream = 'stdout' | 'stderr';

export interface KernelSpec {
  command: KernelCommand;
  cwd: string;
  env: Readonly<Record<string, string>>;
  uid: number;
  gid: number;
  group: KernelsGroup;
  /** One that was forked into the sandbox, if there is one; else a kernel is started by `command`. */
  takeForked: () => Promise<ForkedKernel | undefined>;
}

/** What a kernel does, in order: everything that was printed before a message comes before it. */
export interface KernelListener {
  ready(): void;
  /** `bytes` is only valid during the call. */
  printed(stream: StandardStream, bytes: Buffer): void;
  message(message: Exclude<FromKernel, { type: 'ready' | 'unfit' }>): void;
  /**
   * Last, and once. `reason` completes the sentence "the kernel …". Of a kernel that is no child of the agent nobody
   * learns which signal ended it, if one did: then `signal` is undefined.
   */
  exited(reason: string, signal: NodeJS.Signals | null | undefined): void;
}

/** One kernel process, its private socket and its two pipes. */
export class KernelProcess {
  readonly #spec: KernelSpec;
  #listener: KernelListener;
  readonly #mark = randomHex(MARK_BYTES);
  readonly #exit = Promise.withResolvers<void>();
  #frames = new FrameDecoder();
  /** Also its session. */
  #pid: number | undefined;
  #forked: ForkedKernel | undefined;
  #joined: Promise<void> | undefined;
  #socket: Socket | undefined;
  #pipes: OutputPipe[] = [];
  #ready = false;
  #stopped = false;
  #exited = false;
  #paused = false;
  #busy: boolean | undefined;
  #stopReason: string | undefined;
  #killing: Promise<void> | undefined;

  constructor(spec: KernelSpec, listener: KernelListener) {
    this.#spec = spec;
    this.#listener = listener;
    this.#start().catch((error: Error) => this.#ended(`did not start: ${error.message}`, null));
  }

  get ready(): boolean {
    return this.#ready;
  }

  /** Whether its process lives, or is about to. An end that nobody was told of yet counts. */
  isAlive(): boolean {
    if (this.#exited || this.#stopped) return false;
    return this.#pid === undefined || findStart(this.#pid) !== undefined;
  }

  /** From now on `listener` is told, first of its being ready. */
  handTo(listener: KernelListener): void {
    this.#listener = listener;
    if (this.#ready) queueMicrotask(() => listener.ready());
  }

  send(message: ToKernel | AssignMessage | SyncedMessage): void {
    this.#socket?.write(encodeFrame(message));
  }

  /** Takes everything that was printed up to now. */
  drain(): void {
    for (const pipe of this.#pipes) pipe.drain();
  }

  /** What it prints and sends waits in the kernel, which comes to a halt. */
  pause(): void {
    this.#paused = true;
    for (const pipe of this.#pipes) pipe.pause();
    this.#socket?.pause();
  }

  resume(): void {
    this.#paused = false;
    for (const pipe of this.#pipes) pipe.resume();
    this.#socket?.resume();
    this.#readMessages();
  }

  /** The busiest goes first when memory runs out. */
  setBusy(busy: boolean): void {
    if (this.#pid === undefined || this.#busy === busy) return;
    this.#busy = busy;
    setOomScore(this.#pid, busy ? 1000 : 300);
  }

  /** Ends it and everything that it started. Resolves when all are gone. Idempotent. */
  async stop(reason: string): Promise<void> {
    this.#stopReason ??= reason;
    this.#stopped = true;
    this.#killing ??= this.#killTree();
    await Promise.all([this.#killing, this.#exit.promise]);
  }

  async #killTree(): Promise<void> {
    const { uid, gid } = this.#spec;
    const pid = this.#pid;
    // The number of a process that nobody waits for may be another's by now; that one's session is its own.
    const isGone = this.#forked !== undefined && isAnother(this.#forked);
    if (pid !== undefined && !isGone) await killTree({ pid, mark: this.#mark, uid, gid });
    if (this.#forked) this.#socket?.destroy();
  }

  async #start(): Promise<void> {
    const forked = await this.#spec.takeForked();
    if (forked) this.#adopt(forked);
    else await this.#spawn();
  }

  async #spawn(): Promise<void> {
    const { command, cwd, uid, gid } = this.#spec;
    const fifos = await createFifos(STREAMS.length, uid, gid);
    this.#openPipes(fifos);
    let child: ChildProcess;
    try {
      if (this.#stopped) throw new Error('it was stopped');
      child = spawn(command.file, command.args, {
        cwd,
        env: this.#environment(),
        uid,
        gid,
        // A session of its own, so that all of it can be found again.
        detached: true,
        stdio: ['ignore', ...this.#pipes.map((pipe) => pipe.writeFd), 'pipe'],
      });
    } finally {
      for (const pipe of this.#pipes) pipe.closeWriteEnd();
    }
    this.#pid = child.pid;
    child.once('error', (error) => this.#ended(`did not start: ${error.message}`, null));
    child.once('exit', (code, signal) => this.#onExit(code, signal));
    this.#joined = this.#joinGroup(child.pid);
    // It ends in any case, and whoever waits for it learns of that.
    this.#joined.catch(() => undefined);
    this.#listen(child.stdio[KERNEL_SOCKET_FD] as Socket);
  }

  /** It is in its control group, has its user's rights, and runs nothing before it is told where. */
  #adopt(forked: ForkedKernel): void {
    this.#forked = forked;
    this.#pid = forked.pid;
    this.#openPipes(forked.fifos);
    this.#joined = Promise.resolve();
    this.#listen(forked.socket);
    forked.socket.once('close', () => this.#onForkedClosed(forked));
    if (this.#stopped) {
      void this.#killTree();
      return;
    }
    this.send({ type: 'assign', cwd: this.#spec.cwd, env: this.#environment() });
    if (forked.socket.destroyed) this.#onForkedClosed(forked);
  }

  #replaceForked(): void {
    this.#forked = undefined;
    this.#pid = undefined;
    this.#socket
      ?.removeAllListeners()
      .on('error', () => undefined)
      .destroy();
    for (const pipe of this.#pipes.splice(0)) pipe.close();
    this.#frames = new FrameDecoder();
    this.#spawn().catch((error: Error) => this.#ended(`did not start: ${error.message}`, null));
  }

  #openPipes(fifos: readonly Fifo[]): void {
    this.#pipes = fifos.map((fifo, index) => {
      const stream = STREAMS[index] ?? 'stderr';
      return new OutputPipe(fifo, (bytes) => this.#listener.printed(stream, bytes));
    });
  }

  #environment(): Record<string, string> {
    const { cwd, env } = this.#spec;
    return { ...env, PWD: cwd, [KERNEL_MARK]: this.#mark };
  }

  /**
   * SECURITY: a kernel is told to run code only when it is among the kernels, where a fork bomb takes nothing from the
   * agent (e2e/security/limits).
   */
  async #joinGroup(pid: number | undefined): Promise<void> {
    if (pid === undefined) return;
    try {
      await this.#spec.group.join(pid);
    } catch (error) {
      const isGone = (error as NodeJS.ErrnoException).code === 'ESRCH';
      if (!isGone) void this.stop(`could not be bounded (${(error as Error).message})`);
      throw error;
    }
  }

  #listen(socket: Socket): void {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => {
      this.#frames.push(chunk);
      this.#readMessages();
    });
    socket.on('error', () => socket.destroy());
    // Without its socket a kernel can be told nothing: user code has closed it, unless the kernel is just ending.
    socket.on('close', () => {
      const stopIfStillIts = () => this.#socket === socket && void this.stop('closed its connection to the agent');
      setTimeout(stopIfStillIts, LAST_WORDS_MS);
    });
  }

  #readMessages(): void {
    let isDrained = false;
    try {
      while (!this.#stopped && !this.#paused) {
        const frame = this.#frames.take();
        if (frame === undefined) return;
        const message = readKernelMessage(frame.message);
        if (!isDrained && !('drained' in message)) {
          // What came before any of these messages is in the pipes by now.
          this.drain();
          isDrained = true;
        }
        this.#deliver(message);
      }
    } catch (error) {
      void this.stop(`broke its protocol (${(error as Error).message})`);
    }
  }

  #deliver(message: FromKernel): void {
    if (message.type === 'unfit') {
      // Something in the sandbox is not as it was in the template: a kernel that is started now sees it.
      if (this.#forked && !this.#ready) this.#replaceForked();
    } else if (message.type !== 'ready') {
      this.#listener.message(message);
      if (message.type === 'output' && message.sync !== undefined) this.send({ type: 'synced', sync: message.sync });
    } else {
      this.#joined?.then(
        () => this.#becomeReady(),
        () => undefined,
      );
    }
  }

  #becomeReady(): void {
    if (this.#ready || this.#stopped) return;
    this.#ready = true;
    // Not sooner: for a moment after its program was loaded, its files in /proc are nobody's to write.
    this.setBusy(false);
    this.#listener.ready();
  }

  #onExit(code: number | null, signal: NodeJS.Signals | null): void {
    const reason = signal === null ? `exited with code ${code}` : `was killed by ${signal}`;
    const end = () => this.#ended(this.#stopReason ?? reason, signal);
    if (this.#socket === undefined || this.#socket.closed) {
      end();
      return;
    }
    this.#socket.once('close', end);
    // Something may have inherited the socket and keep it open.
    setTimeout(end, LAST_WORDS_MS);
    this.resume();
  }

  /** What came from outside is waited for by the init of the sandbox: the end of its socket is all that is seen here. */
  #onForkedClosed(forked: ForkedKernel): void {
    if (this.#forked !== forked) return;
    if (!this.#ready && !this.#stopped) {
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
    for (const pipe of this.#pipes) pipe.close();
    this.#socket?.destroy();
    this.#exit.resolve();
    // What it leaves behind ends with it.
    void this.stop(reason);
    this.#listener.exited(reason, signal);
  }
}

function isAnother({ pid, startTicks }: ForkedKernel): boolean {
  const start = findStart(pid);
  return start !== undefined && start !== startTicks;
}
