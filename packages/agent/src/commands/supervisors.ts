import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { join } from 'node:path';
import type { AgentConfig } from '../config.ts';
import { setOomScore } from '../memory/memory.ts';
import { KernelsGroup } from '../processes/kernels-group.ts';
import { findStart } from '../processes/process-tree.ts';

const PERL = '/usr/bin/perl';
/** The command that was just started, and whoever waits for its end, come first. */
const RESTOCK_MS = 5;

/** A process of `supervise.pl`, before it is told what to start. */
export interface SupervisorProcess {
  readonly process: ChildProcess;
  readonly socket: Socket;
  /**
   * Resolves when it is among what a client starts; rejects when it cannot be.
   *
   * SECURITY: it is told what to start only then, and there a fork bomb takes nothing from the agent (e2e/security/limits).
   */
  readonly joined: Promise<void>;
}

/**
 * Where commands and terminals get their supervisors. One waits for the next of them, as starting Perl and moving it to its
 * control group takes longer than most commands; it holds 1.2 MB.
 */
export class Supervisors {
  readonly #script: string;
  readonly #group: KernelsGroup;
  #spare: SupervisorProcess | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor({ guestDir, kernelsGroupFds }: Pick<AgentConfig, 'guestDir' | 'kernelsGroupFds'>) {
    this.#script = join(guestDir, 'supervise.pl');
    this.#group = new KernelsGroup(kernelsGroupFds);
  }

  /** The one that waits, or one that starts now. The caller's from then on. */
  take(): SupervisorProcess {
    const spare = this.#spare;
    this.#spare = undefined;
    clearTimeout(this.#timer);
    if (spare === undefined) return this.#start();
    if (isAlive(spare)) return spare;
    spare.socket.destroy();
    return this.#start();
  }

  /** To be called when one has started its command, or cannot: in a moment another one waits, where there is room. Idempotent. */
  restock(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (this.#spare === undefined && !this.#group.isCrowded() && !this.#group.isFull()) this.#startAhead();
    }, RESTOCK_MS);
  }

  /** Ends the one that waits. */
  close(): void {
    clearTimeout(this.#timer);
    // That is what it ends at.
    this.#spare?.socket.destroy();
    this.#spare = undefined;
  }

  #startAhead(): void {
    const spare = this.#tryToStart();
    if (spare === undefined) return;
    this.#spare = spare;
    const drop = () => {
      if (this.#spare !== spare) return;
      this.#spare = undefined;
      spare.socket.destroy();
    };
    spare.process.once('error', drop).once('exit', drop);
    spare.joined.catch(drop);
  }

  /** Undefined where there is no memory for one: whoever wants the next one is told. */
  #tryToStart(): SupervisorProcess | undefined {
    try {
      return this.#start();
    } catch {
      return undefined;
    }
  }

  #start(): SupervisorProcess {
    const child = spawn(PERL, [this.#script, process.arch], {
      // SECURITY: nothing of the client's environment reaches a program of root's.
      env: {},
      cwd: '/',
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    });
    // Without descriptors left there is none; `error` tells.
    const socket = (child.stdio?.[3] as Socket | undefined) ?? new Socket();
    socket.on('error', () => socket.destroy());
    const { pid } = child;
    if (pid === undefined) return { process: child, socket, joined: new Promise(() => undefined) };
    setOomScore(pid, 0);
    return { process: child, socket, joined: this.#group.join(pid) };
  }
}

/** Also when nobody was told of its end yet. What ends has no connection any more some time before. */
function isAlive({ process: { pid, exitCode, signalCode }, socket }: SupervisorProcess): boolean {
  if (socket.destroyed) return false;
  return pid !== undefined && exitCode === null && signalCode === null && findStart(pid) !== undefined;
}
