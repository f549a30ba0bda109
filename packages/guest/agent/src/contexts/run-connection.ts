import type { Duplex } from 'node:stream';
import type { ActivitySink } from '@cloche/node-support';
import { reportFailure } from '@cloche/node-support';
import { RUNS_KEEP_ALIVE, RUNS_UPGRADE } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { Gate } from '../base/gate.ts';
import { MAX_BODY_BYTES, parseJson, readStartRun } from '../wire/requests.ts';
import { switchProtocols, type Upgrade } from '../wire/upgrades.ts';
import type { Context } from './context.ts';
import type { ContextRegistry } from './context-registry.ts';
import { Run } from './run.ts';
import { RunFencing } from './run-fencing.ts';
import { SilenceWatch } from './silence-watch.ts';

/** Unsent bytes from which a reader counts as slow and the kernel is paused. */
const CONGESTED_BYTES = 1024 * 1024;
const LINE_FEED = 0x0a;

/** @param gate refuses the runs that are not executed yet when it closes */
export function serveRuns(contexts: ContextRegistry, activity: ActivitySink, gate = new Gate()): Upgrade {
  const claims = new RunFencing();
  return async ({ url, headers }, socket, head) => {
    if (url !== '/runs') throw new AgentError('not_found', `The agent has no runs at ${url}.`);
    const [name = '', value] = RUNS_KEEP_ALIVE.split(': ');
    const isKeptAlive = headers[name] === value;
    switchProtocols(socket, RUNS_UPGRADE, ...(isKeptAlive ? [RUNS_KEEP_ALIVE] : []));
    new RunConnection({ contexts, activity, claims, gate, isKeptAlive }, socket, head);
  };
}

interface RunConnectionDeps {
  readonly contexts: ContextRegistry;
  readonly activity: ActivitySink;
  readonly claims: RunFencing;
  readonly gate: Gate;
  /** Whether the server sends empty lines during a run. */
  readonly isKeptAlive: boolean;
}

/** Runs on one connection, one after the other. A line from the server starts a run; the run's events are sent back. */
class RunConnection {
  readonly #contexts: ContextRegistry;
  readonly #activity: ActivitySink;
  readonly #claims: RunFencing;
  readonly #gate: Gate;
  readonly #socket: Duplex;
  readonly #silence: SilenceWatch | undefined;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #run: Run | undefined;

  /** @param head bytes that arrived together with the upgrade request. */
  constructor({ contexts, activity, claims, gate, isKeptAlive }: RunConnectionDeps, socket: Duplex, head: Buffer) {
    this.#contexts = contexts;
    this.#activity = activity;
    this.#claims = claims;
    this.#gate = gate;
    this.#socket = socket;
    // A silent server is treated like one that has disconnected, because another server may soon execute the request.
    const isBusy = () => this.#run !== undefined;
    if (isKeptAlive) this.#silence = new SilenceWatch(isBusy, () => socket.destroy());
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('drain', () => this.#run?.relieve());
    socket.on('end', () => socket.destroy());
    socket.on('close', () => {
      this.#silence?.end();
      this.#run?.abandon();
    });
    if (head.length > 0) this.#receive(head);
  }

  get congested(): boolean {
    return this.#socket.writableLength > CONGESTED_BYTES;
  }

  write(lines: string): void {
    this.#socket.write(lines);
  }

  /** Releases the connection for the next run, after all events of `run` have been written. */
  end(run: Run): void {
    this.#claims.leave(run);
    if (this.#run === run) this.#run = undefined;
  }

  #receive(chunk: Buffer): void {
    this.#silence?.heard();
    // An empty line that the server sent during a run may arrive after the end of the run.
    if (this.#silence && this.#bytes === 0 && chunk.every((byte) => byte === LINE_FEED)) return;
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    // More data during a run is a violation of the protocol.
    if (this.#run !== undefined || this.#bytes > MAX_BODY_BYTES) this.#socket.destroy();
    else if (chunk.at(-1) === LINE_FEED) this.#start().catch(reportFailure);
  }

  async #start(): Promise<void> {
    const line = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks, this.#bytes);
    this.#chunks = [];
    this.#bytes = 0;
    const arrivedAt = performance.now();
    this.#activity.touch();
    try {
      this.#gate.requireOpen();
      const start = readStartRun(parseJson(String(line)));
      const run = new Run(start, this, arrivedAt);
      this.#claims.enter(run);
      this.#run = run;
      this.#silence?.begin();
      const context = start.open
        ? await this.#contexts.open(start.contextId, start.open)
        : this.#contexts.get(start.contextId);
      run.opened();
      // Deferred, so that output that the kernel has printed so far is read first. It does not belong to this run.
      setImmediate(() => this.#submit(run, context));
    } catch (error) {
      this.#refuse(error);
    }
  }

  #submit(run: Run, context: Context): void {
    // The server may have disconnected meanwhile.
    if (this.#socket.destroyed) {
      this.end(run);
      return;
    }
    try {
      this.#gate.requireOpen();
      this.#claims.require(run.operation);
      context.submit(run);
    } catch (error) {
      this.#refuse(error);
    }
  }

  #refuse(error: unknown): void {
    if (this.#run) this.end(this.#run);
    const code = error instanceof AgentError ? error.code : 'internal';
    this.write(`${JSON.stringify({ error: { code, message: (error as Error).message } })}\n`);
  }
}
