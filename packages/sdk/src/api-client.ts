import type { CodeRunEvent, CommandEvent, FileEvent, OperationId, Operations, ResponseOf } from '@cloche/contract';
import { Absence } from './absence.ts';
import { type ClientOptions, type ResolvedOptions, resolveOptions } from './client-options.ts';
import { ClocheError, isClocheError } from './cloche-error.ts';
import { readCommandEvents } from './command-events.ts';
import { Deadline } from './deadline.ts';
import { readRunEvents } from './event-stream.ts';
import { readFileEvents } from './file-events.ts';
import { type AnyRequest, type CallOptions, type PreparedRequest, prepareRequest, type RequestOf } from './request.ts';
import { readBytes, readEventBody, readJson } from './response.ts';
import { retryKind, retryPauseMs } from './retry.ts';

type EventsId = { [Id in OperationId]: Operations[Id] extends { events: unknown } ? Id : never }[OperationId];
/** Operations that answer with a stream that can be resumed. */
export type FollowId = Extract<EventsId, 'streamCommand'>;
/** Operations that answer with the stream of a run. */
export type StreamId = Exclude<EventsId, FollowId | WatchId>;
/** Operations that answer with changes as they happen. */
export type WatchId = Extract<EventsId, 'watchFiles'>;
/** Operations that answer with bytes. */
export type DownloadId = {
  [Id in OperationId]: Operations[Id] extends { download: unknown } ? Id : never;
}[OperationId];
/** Operations that answer with one JSON body. */
export type CallId = Exclude<OperationId, EventsId | DownloadId | SocketId>;
/** Operations that are WebSockets. */
export type SocketId = { [Id in OperationId]: Operations[Id] extends { webSocket: string } ? Id : never }[OperationId];

/** The request may be left out where nothing in it is required. */
type RequestArgument<Id extends OperationId> =
  Record<never, never> extends RequestOf<Id> ? [request?: RequestOf<Id>] : [request: RequestOf<Id>];

/** Every operation of the contract by its id, with retries. The handles (`cloche.sandboxes`, …) are built on it. */
export class ApiClient {
  readonly #options: ResolvedOptions;

  /** @throws {ClocheError} `missing_api_key`, `invalid_options` */
  constructor(options: ClientOptions = {}) {
    this.#options = resolveOptions(options);
  }

  /** Where the service is expected, without a slash at the end. */
  get url(): string {
    return this.#options.url;
  }

  /** Whether a service that was there may be away for a moment, by its error. */
  absence({ maxRetries = this.#options.maxRetries }: CallOptions): Absence {
    return new Absence(maxRetries);
  }

  /**
   * Does one operation. All attempts carry the same Idempotency-Key, so it is done once.
   * @throws {ClocheError} with the service's code, or one of the client's own.
   */
  async call<Id extends CallId>(id: Id, ...[request]: RequestArgument<Id>): Promise<ResponseOf<Operations[Id]>> {
    const prepared = prepareRequest(id, forgetTypes(request), this.#options);
    const deadline = new Deadline(prepared.timeoutMs, request?.signal);
    try {
      return (await this.#retrying(prepared, deadline, readJson)) as ResponseOf<Operations[Id]>;
    } catch (error) {
      throw outcomeOf(error, prepared, deadline, request?.signal);
    } finally {
      deadline.close();
    }
  }

  /**
   * Does an operation that answers with bytes; resolves when they begin. The deadline is for that beginning, the signal
   * for all of it.
   * @throws {ClocheError} as `call` does.
   */
  async download<Id extends DownloadId>(id: Id, request: RequestOf<Id>): Promise<Response> {
    const prepared = prepareRequest(id, forgetTypes(request), this.#options);
    const deadline = new Deadline(prepared.timeoutMs, request.signal);
    try {
      const response = await this.#retrying(prepared, deadline, readBytes);
      deadline.pause();
      return response;
    } catch (error) {
      deadline.close();
      throw outcomeOf(error, prepared, deadline, request.signal);
    }
  }

  /**
   * Opens a stream, with retries until it is open and none after. Leaving the loop disconnects, which cancels the
   * operation. An error of the platform is thrown; an error of the code is an event.
   */
  async *stream(id: StreamId, request: RequestOf<StreamId>): AsyncGenerator<CodeRunEvent, void> {
    const prepared = prepareRequest(id, forgetTypes(request), this.#options);
    const deadline = new Deadline(prepared.timeoutMs, request.signal);
    try {
      const body = await this.#retrying(prepared, deadline, readEventBody);
      yield* readRunEvents(body, deadline);
    } catch (error) {
      throw outcomeOf(error, prepared, deadline, request.signal);
    } finally {
      deadline.close();
    }
  }

  /**
   * The events of a command up to its `exit`. A stream that breaks off is taken up where it was, for half a minute where
   * nobody answers, as while the service starts anew; leaving the loop leaves the command alone.
   */
  async *follow(id: FollowId, request: RequestOf<FollowId>): AsyncGenerator<CommandEvent, void> {
    let afterSeq = request.query?.afterSeq ?? 0;
    let failures = 0;
    const absence = this.absence(request);
    for (;;) {
      const resumed: AnyRequest = { ...forgetTypes(request), query: { afterSeq } };
      const prepared = prepareRequest(id, resumed, this.#options);
      const deadline = new Deadline(prepared.timeoutMs, request.signal);
      let isOpen = false;
      try {
        const body = await this.#retrying(prepared, deadline, readEventBody);
        isOpen = true;
        absence.end();
        for await (const event of readCommandEvents(body, deadline)) {
          failures = 0;
          if (event.type === 'log') afterSeq = event.data.seq;
          yield event;
          if (event.type === 'exit') return;
          absence.end();
        }
      } catch (error) {
        const outcome = outcomeOf(error, prepared, deadline, request.signal);
        const mayReturn = !isOpen && (await absence.mayEnd(outcome));
        const mayResume = isClocheError(outcome, 'stream_interrupted', 'unavailable');
        if (!mayReturn && !(mayResume && failures < prepared.maxRetries)) throw outcome;
        if (!mayReturn) failures += 1;
      } finally {
        deadline.close();
      }
    }
  }

  /** Changes as they happen, until the service or the caller ends it. What happens while it is broken is not told. */
  async *watch(id: WatchId, request: RequestOf<WatchId>): AsyncGenerator<FileEvent, void> {
    const prepared = prepareRequest(id, forgetTypes(request), this.#options);
    const deadline = new Deadline(prepared.timeoutMs, request.signal);
    try {
      yield* readFileEvents(await this.#retrying(prepared, deadline, readEventBody), deadline);
    } catch (error) {
      throw outcomeOf(error, prepared, deadline, request.signal);
    } finally {
      deadline.close();
    }
  }

  /** Begins to open a WebSocket; it is as the platform has it. Where its headers cannot be set, as in browsers, it fails. */
  openSocket<Id extends SocketId>(id: Id, request: RequestOf<Id>): WebSocket {
    const { url, init } = prepareRequest(id, forgetTypes(request), this.#options);
    const { authorization = '' } = init.headers;
    return new WebSocket(url.replace(/^http/, 'ws'), { headers: { authorization } });
  }

  async #retrying<T>(
    request: PreparedRequest,
    deadline: Deadline,
    read: (response: Response, request: PreparedRequest) => Promise<T>,
  ): Promise<T> {
    for (let retries = 0, waits = 0; ; ) {
      try {
        return await read(await this.#fetch(request, deadline.signal), request);
      } catch (cause) {
        if (deadline.signal.aborted) throw cause;
        const error = cause instanceof ClocheError ? cause : unreachable(this.url, request, cause);
        const kind = retryKind(error, request);
        if (kind === 'never' || (kind === 'again' && retries >= request.maxRetries)) throw error;
        const pauseMs = retryPauseMs(error, kind === 'again' ? retries++ : waits++, request.retryDelayMs);
        if (pauseMs >= deadline.remainingMs) throw error;
        await deadline.sleep(pauseMs);
      }
    }
  }

  #fetch(request: PreparedRequest, signal: AbortSignal): Promise<Response> {
    // A redirect would turn a POST into a GET or take the key elsewhere: it is an unexpected answer.
    return this.#options.fetch(request.url, { ...request.init, redirect: 'manual', signal });
  }
}

/** The parts of a request are checked against the operation by its type; the wire treats all operations alike. */
function forgetTypes(request: unknown): AnyRequest {
  return (request ?? {}) as AnyRequest;
}

function unreachable(url: string, { idempotencyKey }: PreparedRequest, cause: unknown): ClocheError {
  const { code, message } = (cause as { cause?: { code?: string; message?: string } } | undefined)?.cause ?? {};
  const why = code ?? message ?? (cause instanceof Error ? cause.message : String(cause));
  return new ClocheError(
    'unreachable',
    `Cloche cannot be reached at ${url} (${why}); see that it runs there, or set CLOCHE_URL to where it does.`,
    { cause, idempotencyKey },
  );
}

/** What the caller sees: its own abort as it is, a deadline as such. */
function outcomeOf(
  error: unknown,
  { operation, idempotencyKey, timeoutMs }: PreparedRequest,
  deadline: Deadline,
  signal: AbortSignal | undefined,
): unknown {
  if (signal?.aborted) return signal.reason;
  if (!deadline.passed || error instanceof ClocheError) return error;
  const message = `${operation.id} had no answer within ${timeoutMs} ms; it may have been done all the same.`;
  return new ClocheError('deadline_exceeded', message, { cause: error, idempotencyKey });
}
