import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { join } from 'node:path';
import type { AgentConfig } from '../config.ts';
import { setOomScore } from '../memory/memory.ts';
import type { KernelsGroup } from '../processes/kernels-group.ts';
import { findStart } from '../processes/process-tree.ts';
import { ReserveGroup } from '../processes/reserve-group.ts';

/** Delay before the next supervisor is started, so that it does not slow down the command that was just started. */
const RESTOCK_MS = 5;

/** A process of `supervise` that has not been given a command yet. */
export interface SupervisorProcess {
  readonly process: ChildProcess;
  readonly socket: Socket;
  /**
   * Resolves when the process is in the control group for client processes. Rejects if it cannot be moved there.
   *
   * SECURITY: the supervisor gets its command only afterwards. In that group a fork bomb takes no process from the
   * agent (e2e/security/limits).
   */
  readonly joined: Promise<void>;
}

/**
 * Supplies the supervisors of commands and terminals. Keeps one spare, because starting a process and moving it to
 * its control group takes longer than most commands.
 */
export class Supervisors {
  readonly #program: string;
  readonly #group: KernelsGroup;
  readonly reserve: ReserveGroup;
  #spare: SupervisorProcess | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(config: Pick<AgentConfig, 'guestDir' | 'reserveGroupFds'>, group: KernelsGroup) {
    this.#program = join(config.guestDir, 'bin/supervise');
    this.#group = group;
    this.reserve = new ReserveGroup(config.reserveGroupFds, group);
  }

  /** Returns the spare, or starts a supervisor. The caller owns it from then on. */
  take(): SupervisorProcess {
    const spare = this.#spare;
    this.#spare = undefined;
    clearTimeout(this.#timer);
    if (spare === undefined) return this.#start();
    if (isAlive(spare)) return spare;
    spare.socket.destroy();
    return this.#start();
  }

  /** Starts a supervisor in the reserve. The caller owns it from then on. */
  takeReserved(): SupervisorProcess {
    return this.#start((pid, ended) => this.reserve.join(pid, ended));
  }

  /** Schedules the start of a spare, if there is room. Call it when a command has started or failed. Idempotent. */
  restock(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (this.#spare === undefined && !this.#group.isCrowded() && !this.#group.isFull()) this.#startAhead();
    }, RESTOCK_MS);
  }

  /** Ends the spare. */
  close(): void {
    clearTimeout(this.#timer);
    // The supervisor exits when its socket is closed.
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

  /** Returns undefined if no supervisor can be started. The next command then tries again and reports the error. */
  #tryToStart(): SupervisorProcess | undefined {
    try {
      return this.#start();
    } catch {
      return undefined;
    }
  }

  #start(join = (pid: number, _ended: Promise<void>) => this.#group.join(pid)): SupervisorProcess {
    const child = spawn(this.#program, [], {
      // SECURITY: no variable of a client reaches a program that runs as root.
      env: {},
      cwd: '/',
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    });
    // Without free descriptors there is no socket. The `error` event reports that.
    const socket = (child.stdio?.[3] as Socket | undefined) ?? new Socket();
    socket.on('error', () => socket.destroy());
    const { pid } = child;
    if (pid === undefined) return { process: child, socket, joined: new Promise(() => undefined) };
    this.#group.keep(pid);
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    child.once('exit', () => {
      this.#group.giveUp(pid);
      resolve();
    });
    setOomScore(pid, 0);
    return { process: child, socket, joined: join(pid, ended) };
  }
}

/**
 * Returns whether a supervisor can still be used. Asks the system, because the exit event may not have arrived yet. A
 * supervisor that is ending has closed its socket already.
 */
function isAlive({ process: { pid, exitCode, signalCode }, socket }: SupervisorProcess): boolean {
  if (socket.destroyed) return false;
  return pid !== undefined && exitCode === null && signalCode === null && findStart(pid) !== undefined;
}
