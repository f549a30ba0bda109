import type { Socket } from 'node:net';
import { RUN_KEEP_ALIVE_MS } from '@cloche/protocol';
import { AgentError } from '../../driver/runtime-driver.ts';
import { RunConnection } from './run-connection.ts';

/** Most concurrent runs of one sandbox. */
const MAX_RUNS = 128;

/**
 * The connections for the runs of one agent, kept for later runs. A call over such a connection takes 0.02 ms; a request
 * of HTTP takes 0.10 ms (docs/performance/hot-run.md).
 */
export class RunConnections {
  readonly #dial: () => Socket;
  readonly #all = new Set<RunConnection>();
  /** Connections without a run. */
  readonly #idle: RunConnection[] = [];
  /** Set while at least one run is active. */
  #timer: NodeJS.Timeout | undefined;

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
    if (active.length === 0) this.#stopTimer();
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
