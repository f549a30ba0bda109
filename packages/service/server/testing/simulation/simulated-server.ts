/** A simulated server: it has the services of a real server, and no sockets. */

import type { Operation } from '@cloche/contract';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../../src/platform/base/app-error.ts';
import type { DiskSpace } from '../../src/platform/base/disk-space.ts';
import type { Database } from '../../src/platform/db/database.ts';
import { execute } from '../../src/platform/http/execute.ts';
import { ListCursors } from '../../src/platform/http/list-cursors.ts';
import type { Authenticator } from '../../src/platform/keys/authenticator.ts';
import { credentialOf } from '../seeded-organizations.ts';
import { SILENT } from '../silent.ts';
import { openFor } from './database-connections.ts';
import type { Link, Peer } from './faults.ts';
import { type ComposedServer, composeServer, type ServerWorld } from './server-parts.ts';
import { runtimeFor, type SimulatedRuntime } from './simulated-runtime.ts';
import { replyTo } from './stored-reply.ts';

export interface Answer {
  readonly status: number;
  readonly body: string;
  /** Code of an error. */
  readonly code: string | undefined;
}

export interface Call {
  readonly operation: Operation;
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly body?: unknown;
  readonly key?: string | undefined;
  /** The API key of the request, where the workload has any. */
  readonly secret?: string | undefined;
}

export class SimulatedServer implements Peer {
  readonly name: string;
  readonly cutUntil = new Map<Link, number>();
  isAlive = true;
  resumesAt = 0;
  /** Called at the end of the process: the connections of its clients break. */
  readonly onEnd = new Set<() => void>();
  readonly #world: ServerWorld;
  readonly #connections: { db: Database; close: () => void };
  readonly #runtime: SimulatedRuntime;
  #server: ComposedServer | undefined;

  constructor(name: string, world: ServerWorld) {
    this.name = name;
    this.#world = world;
    this.#connections = openFor(this, world);
    this.#runtime = runtimeFor(this, world);
  }

  /** Whether the server answers requests. */
  get isServing(): boolean {
    return this.isAlive && this.#server !== undefined;
  }

  /** Starts the services. Rejects as the start of a server does, which then ends. */
  async start(): Promise<void> {
    const server = await composeServer(this, this.#connections.db, this.#runtime, this.#world);
    await server.start();
    this.#server = server;
  }

  /** Ends the process at once. Its connections close now, or later if its whole machine has ended. */
  end(closesMs = 0): void {
    this.isAlive = false;
    this.#world.bus.leave(this);
    for (const ended of this.onEnd) ended();
    this.#world.time.afterFor(undefined, closesMs, `connections of ${this.name} close`, () => {
      this.#connections.close();
      this.#runtime.closeAll();
    });
  }

  /** Executes a request as the HTTP layer does. Never settles if the server ends before the answer. */
  async call(call: Call): Promise<Answer> {
    if (!this.#server) return { status: 503, body: '', code: 'unavailable' };
    const { routes, clock, idempotency, inFlight, resultMemoryLimit, isFenced, authenticator } = this.#server;
    const route = routes.get(call.operation.id);
    if (!route) throw new Error(`no route ${call.operation.id}`);
    const answered = { status: 0, body: '' };
    const reply = replyTo(answered);
    try {
      if (isFenced()) throw new AppError('unavailable', 'cut off');
      const receivedAt = clock.now();
      const { secret } = call;
      const credential =
        authenticator && secret !== undefined ? await authenticator.authenticate(secret) : credentialOf();
      const request = {
        id: 'req',
        ip: '::1',
        headers: secret === undefined ? {} : { authorization: `Bearer ${secret}` },
        log: SILENT,
        state: { receivedAt, credential },
      };
      const valid = { params: call.params ?? {}, query: call.query ?? {}, body: call.body, idempotencyKey: call.key };
      // Sound: `execute` uses nothing else of them for routes that answer with JSON.
      const execution = {
        request: request as unknown as FastifyRequest,
        reply: reply as unknown as FastifyReply,
        valid,
      };
      await execute(route, execution, {
        authenticator: authenticator ?? ({} as Authenticator),
        idempotency,
        inFlight,
        transfers: { stallMs: 60_000 },
        resultMemoryLimit,
        cursors: new ListCursors(Buffer.alloc(32)),
        space: { require: async () => undefined } as unknown as DiskSpace,
      });
      return { ...answered, code: undefined };
    } catch (error) {
      if (error instanceof AppError) return { status: error.status, body: '', code: error.code };
      return { status: 500, body: String((error as Error).stack), code: 'internal' };
    } finally {
      reply.raw.close();
    }
  }
}
