import { type Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { joinPieces, onAbort, paceChunks, TurnBudget } from '@cloche/node-support';
import { AgentErrorBody, TIMED_HEADER } from '@cloche/protocol';
import type { TSchema } from 'typebox';
import { Compile, type Validator } from 'typebox/compile';
import { type Dispatcher, Pool } from 'undici';
import { TransferAgent } from '../../bytes/byte-transfer.ts';
import { AgentError } from '../../driver/runtime-driver.ts';
import { type RequestTracing, tracedRequest } from '../../tracing.ts';
import type { Dial } from '../agent-endpoint.ts';
import { type RequestGroup, refusal, toAgentError } from '../agent-errors.ts';
import { MalformedResponseError, readJson } from '../bounded-body.ts';

/** Largest response to an ordinary request. Most are far smaller. */
const MAX_SMALL_BYTES = 64 * 1024;
/** Largest head of the response to an upgrade. */
const MAX_HEADER_BYTES = 4 * 1024;
/** Connections for contexts. */
const CONTROL_CONNECTIONS = 8;
/** Connections for commands. Each running command uses one to wait for its end; the rest serve other requests. */
const COMMAND_CONNECTIONS = 256;
/** Longest time that an idle connection is kept. Its end shows at once that the agent is gone. */
const KEEP_ALIVE_MS = 3_600_000;
/** Most concurrent transfers of file contents, and of other requests about files. */
const TRANSFER_CONNECTIONS = 16;
const FILE_CONNECTIONS = 8;

/** Pieces of answers that are handled in one turn of the event loop; each takes a microsecond or two. */
const PIECES_PER_TURN = 1_000;

const JSON_HEADERS = { 'content-type': 'application/json' };

export const agentErrorBody = Compile(AgentErrorBody);

/** Requests with small bodies. Each group has connections of its own, so that commands do not hold up contexts. */
export type SmallRequests = Extract<RequestGroup, 'contexts' | 'commands'>;

export interface SmallRequest {
  readonly method: Extract<Dispatcher.HttpMethod, 'GET' | 'PUT' | 'POST' | 'DELETE'>;
  readonly path: string;
  readonly message?: object;
}

export interface StreamRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string | number>>;
}

/**
 * All connections to one agent: for small requests, for streams of bytes, and raw ones for upgrades and runs. Throws
 * `AgentError` for refusals and invalid responses.
 */
export class AgentTransport {
  /** Opens a connection that the caller owns. */
  readonly dial: () => Socket;
  /** Opens a connection whose chunks are parsed within the budget. */
  readonly #dialPaced: Dial;
  /** undici, because a small request takes 104 µs with it and 160 µs with `node:http`. */
  readonly #pools: Readonly<Record<SmallRequests, Pool>>;
  /** `node:http`, because it copies less of a body and waits for `100 Continue` before it sends one. */
  readonly #agents: { readonly transfers: Agent; readonly files: Agent };

  readonly #pieces = new TurnBudget(PIECES_PER_TURN);
  /** Connections that have left HTTP. */
  readonly #upgraded = new Set<Duplex>();
  readonly #tracing: RequestTracing | undefined;

  /** @param onBroken called when no connection for contexts is left, as `RuntimeDriver.connect` describes */
  constructor(dial: Dial, onBroken?: () => void, tracing?: RequestTracing) {
    this.#tracing = tracing;
    this.dial = () => dial();
    const paced: Dial = (options) => {
      const socket = dial(options);
      paceChunks(socket, this.#pieces);
      return socket;
    };
    this.#dialPaced = paced;
    const contexts = openPool(paced, { connections: CONTROL_CONNECTIONS, keepAliveMaxTimeout: KEEP_ALIVE_MS });
    contexts.on('disconnect', () => {
      if (!contexts.destroyed && contexts.stats.connected === 0) onBroken?.();
    });
    this.#pools = { contexts, commands: openPool(paced, { connections: COMMAND_CONNECTIONS }) };
    const kept = { keepAlive: true, maxFreeSockets: 1 };
    this.#agents = {
      transfers: new TransferAgent(dial, { ...kept, maxSockets: TRANSFER_CONNECTIONS }),
      files: new TransferAgent(paced, { ...kept, maxSockets: FILE_CONNECTIONS }),
    };
  }

  get isClosed(): boolean {
    return this.#pools.contexts.destroyed;
  }

  /** Sends a request and returns the response before its body has been read. */
  async open(group: SmallRequests, asked: SmallRequest, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    if (!this.#tracing) return this.#send(group, asked, signal);
    // Only the kind of resource: what follows names files or is an id.
    const name = `${asked.method} /${asked.path.split('/', 2)[1]}`;
    return tracedRequest(this.#tracing, 'agent', name, (span) =>
      this.#send(group, asked, signal, span && { [TIMED_HEADER]: '1' }),
    );
  }

  async #send(
    group: SmallRequests,
    { method, path, message }: SmallRequest,
    signal: AbortSignal,
    timed: Readonly<Record<string, string>> = {},
  ): Promise<Dispatcher.ResponseData> {
    const body = message && { body: JSON.stringify(message) };
    const headers = message ? { ...JSON_HEADERS, ...timed } : timed;
    try {
      const response = await this.#pools[group].request({
        method,
        path,
        signal,
        onInfo: refuseInterim,
        headers,
        ...body,
      });
      if (response.statusCode < 300) return response;
      throw await readRefusal(response.body, group);
    } catch (error) {
      throw toAgentError(error, signal, group);
    }
  }

  /** Sends a request and returns the response's JSON, which must match `schema`. */
  async ask<S extends TSchema>(
    group: SmallRequests,
    asked: SmallRequest,
    schema: Validator<Record<never, never>, S>,
    signal: AbortSignal,
    maxBytes = MAX_SMALL_BYTES,
  ): Promise<ReturnType<typeof schema.Parse>> {
    const response = await this.open(group, asked, signal);
    try {
      return await readJson(response.body, schema, maxBytes);
    } catch (error) {
      throw toAgentError(error, signal, group);
    }
  }

  /** Sends a request and discards the body of the response. */
  async act(group: SmallRequests, asked: SmallRequest, signal: AbortSignal): Promise<void> {
    const response = await this.open(group, asked, signal);
    try {
      await response.body.dump({ limit: MAX_SMALL_BYTES });
    } catch (error) {
      throw toAgentError(error, signal, group);
    }
  }

  /**
   * Begins a request about files, which the caller ends. `transfers` and other requests have connections of their own,
   * so that transfers delay no others; a `watch` has one for itself.
   */
  stream(use: 'transfers' | 'files' | 'watch', options: StreamRequest, signal: AbortSignal): ClientRequest {
    const connection = use === 'watch' ? { createConnection: () => this.#dialPaced() } : { agent: this.#agents[use] };
    const sent = request({ ...options, ...connection, signal });
    return sent.once('response', (answer) => {
      if (answer.headers['transfer-encoding'] !== undefined) joinPieces(answer, this.#pieces);
    });
  }

  /**
   * Opens a connection with the protocol `upgrade`. After the agent's `101`, its bytes are not inspected. The caller
   * destroys it, and `close` does; an error destroys it too. `signal` bounds only the opening.
   *
   * @throws AgentError for every other response, and `gone` without a response.
   */
  async upgrade(path: string, upgrade: string, signal: AbortSignal): Promise<Duplex> {
    const headers = { connection: 'upgrade', upgrade };
    const sent = request({ createConnection: this.dial, path, headers, maxHeaderSize: MAX_HEADER_BYTES });
    using _ = onAbort(signal, () => sent.destroy(signal.reason));
    const upgraded = new Promise<Duplex>((resolve) => {
      sent.once('upgrade', (_response, socket, head) => {
        this.#adopt(socket);
        if (head.length > 0) socket.unshift(head);
        resolve(socket);
      });
    });
    const refused = answerTo(sent, 'upgrades', signal).then((response) => readRefusal(response, 'upgrades'));
    sent.end();
    try {
      return await Promise.race([upgraded, refused.then((error) => Promise.reject(error))]);
    } catch (error) {
      sent.destroy();
      throw toAgentError(error, signal, 'upgrades');
    }
  }

  async close(): Promise<void> {
    for (const socket of this.#upgraded) socket.destroy();
    for (const agent of Object.values(this.#agents)) agent.destroy();
    await Promise.all(Object.values(this.#pools).map((pool) => pool.destroy()));
  }

  /** In the turn in which Node hands the connection over, because an error without a listener would end the process. */
  #adopt(socket: Duplex): void {
    socket.on('error', () => socket.destroy());
    this.#upgraded.add(socket);
    socket.once('close', () => this.#upgraded.delete(socket));
  }
}

/** Resolves with the head of the response. */
export function answerTo(asked: ClientRequest, group: RequestGroup, signal: AbortSignal): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    asked.once('response', resolve);
    let interim = 0;
    // An honest agent sends at most one interim response, `100 Continue`.
    asked.on('information', () => {
      interim += 1;
      if (interim > 1) asked.destroy(new AgentError('gone', 'more interim answers than one'));
    });
    // This listener stays: the response reports errors that occur after it has begun.
    asked.on('error', (error) => reject(toAgentError(error, signal, group)));
    asked.once('close', () => reject(new AgentError('gone', 'the connection closed without an answer')));
  });
}

function openPool(dial: Dial, options: Pool.Options): Pool {
  return new Pool('http://agent', {
    ...options,
    connect: (_, done) => {
      const opened = Promise.withResolvers<void>();
      const socket = dial().once('connect', opened.resolve).on('error', opened.reject);
      opened.promise.then(
        () => done(null, socket),
        (error) => done(error, null),
      );
    },
    pipelining: 1,
    // Commands may be silent for hours, so each wait is limited by its abort signal instead.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
}

async function readRefusal(body: AsyncIterable<Buffer>, group: RequestGroup): Promise<AgentError> {
  const { error } = await readJson(body, agentErrorBody, MAX_SMALL_BYTES);
  return refusal(error, group);
}

/** Rejects interim responses: an honest agent sends none, and a hostile one could send an endless series. */
function refuseInterim({ statusCode }: { statusCode: number }): never {
  throw new MalformedResponseError(`the agent sent an interim answer (${statusCode})`);
}
