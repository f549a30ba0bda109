import type { Socket } from 'node:net';
import { RUN_KEEP_ALIVE_MS } from '@cloche/protocol';
import { AgentError } from '../../driver/runtime-driver.ts';
import { RunConnection } from './run-connection.ts';

/** Most concurrent runs of one sandbox. */
const MAX_RUNS = 128;
/** Beats of the timer, a minute together, after which connections are closed that no run has needed, but for one. */
const SPARE_BEATS = 20;

/**
 * The connections for the runs of one agent, kept for later runs. A call over such a connection takes 0.02 ms; a request
 * of HTTP takes 0.10 ms (docs/performance.md).
 */
export class RunConnections {
  readonly #dial: () => Socket;
  readonly #all = new Set<RunConnection>();
  /** Connections without a run. The last one is used first. */
  readonly #idle: RunConnection[] = [];
  /** Set while at least one run is active, or connections are spare. */
  #timer: NodeJS.Timeout | undefined;
  /** Fewest idle connections at a time since they were last counted: so many have had no run since. */
  #spare = 0;
  #beats = 0;

  constructor(dial: () => Socket) {
    this.#dial = dial;
  }

  /**
   * Returns an idle connection or opens one.
   *
   * @throws AgentError `busy` when too many runs are active.
   */
  acquire(): RunConnection {
    this.#timer ??= setInterval(() => this.#keepAlive(), RUN_KEEP_ALIVE_MS).unref();
    const idle = this.#idle.pop();
    this.#spare = Math.min(this.#spare, this.#idle.length);
    if (idle) return idle;
    if (this.#all.size >= MAX_RUNS) throw new AgentError('busy', `${MAX_RUNS} runs are under way in the sandbox`);
    const connection = new RunConnection(this.#dial(), () => this.#forget(connection));
    this.#all.add(connection);
    return connection;
  }

  /** Returns a connection after a run. If the run has not sent `done`, closes the connection, which cancels the run. */
  release(connection: RunConnection, isDone: boolean): void {
    if (!isDone) connection.destroy(new AgentError('gone', 'the run was abandoned before its end'));
    else if (connection.finish()) this.#idle.push(connection);
  }

  close(): void {
    this.#stopTimer();
    for (const connection of this.#all) connection.destroy(new AgentError('gone', 'the client was closed'));
  }

  #keepAlive(): void {
    const active = [...this.#all].filter((connection) => connection.keepAlive());
    this.#closeSpare();
    if (active.length === 0 && this.#idle.length <= 1) this.#stopTimer();
  }

  /** Gives back what many runs at a time have opened, and what fewer do not need. */
  #closeSpare(): void {
    this.#beats += 1;
    if (this.#beats % SPARE_BEATS !== 0) return;
    const kept = this.#all.size === this.#spare ? 1 : 0;
    for (const connection of this.#idle.splice(0, Math.max(0, this.#spare - kept))) {
      connection.destroy(new AgentError('gone', 'no run needed the connection'));
    }
    this.#spare = this.#idle.length;
  }

  #stopTimer(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #forget(connection: RunConnection): void {
    this.#all.delete(connection);
    const index = this.#idle.indexOf(connection);
    if (index !== -1) this.#idle.splice(index, 1);
  }
}
