import type {
  CodeRunEvent,
  CommandEvent,
  FileEvent,
  OperationId,
  Operations,
  ResourceEvent,
  ResponseOf,
  TemplateBuildEvent,
  WorkspaceRunStreamEvent,
} from '@cloche/contract';
import { readBuildEvents } from './build-events.ts';
import { outcomeOf, unreachable } from './call-failures.ts';
import { type ClientOptions, type ResolvedOptions, resolveOptions } from './client-options.ts';
import { ClocheError, isClocheError } from './cloche-error.ts';
import { readCommandEvents } from './command-events.ts';
import { Deadline } from './deadline.ts';
import { readRunEvents } from './event-stream.ts';
import { readFileEvents } from './file-events.ts';
import { readNumberedEvents } from './numbered-events.ts';
import type {
  BuildFollowId,
  CallId,
  DownloadId,
  EventFeedId,
  FollowId,
  ListId,
  RunFeedId,
  SocketId,
  StreamId,
  WatchId,
} from './operation-kinds.ts';
import { Outage } from './outage.ts';
import { type AnyRequest, type CallOptions, type PreparedRequest, prepareRequest, type RequestOf } from './request.ts';
import { readBytes, readEventBody, readJson } from './response.ts';
import { retryKind, retryPauseMs } from './retry.ts';
import { putSigned, type SignedUpload, sourceError } from './signed-upload.ts';

/** An interruption of a stream that was open for this long does not count as a further failure in a row. */
const STEADY_MS = 5000;

/** How an interrupted stream is continued. */
interface Resumption<Event> {
  readonly read: (body: ReadableStream<Uint8Array>, deadline: Deadline) => AsyncIterable<Event>;
  /** Returns the number after which a stream that follows this event is resumed. */
  readonly seqOf: (event: Event) => number | undefined;
  readonly isLast: (event: Event) => boolean;
  readonly afterPause?: (() => Promise<void>) | undefined;
}

/** Makes the request optional if none of its parts is required. */
type RequestArgument<Id extends OperationId> =
  Record<never, never> extends RequestOf<Id> ? [request?: RequestOf<Id>] : [request: RequestOf<Id>];

/**
 * Calls every operation of the contract by its id, with retries. The handles (`cloche.sandboxes`, …) are built on it.
 */
export class ApiClient {
  readonly #options: ResolvedOptions;

  /** @throws {ClocheError} `missing_api_key`, `invalid_options` */
  constructor(options: ClientOptions = {}) {
    this.#options = resolveOptions(options);
  }

  /** URL of the service, without a trailing slash. */
  get url(): string {
    return this.#options.url;
  }

  /** Returns a tracker that decides by errors whether the service is only briefly unreachable. */
  outage({ maxRetries = this.#options.maxRetries }: CallOptions): Outage {
    return new Outage(maxRetries);
  }

  /**
   * Calls an operation. All attempts carry the same Idempotency-Key, so it is executed once.
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
   * Calls an operation whose response is bytes, or a list to read as its JSON arrives; resolves when the response begins.
   * The deadline applies until then, the signal to the whole response.
   * @throws {ClocheError} as `call` does.
   */
  async download<Id extends DownloadId | ListId>(id: Id, request: RequestOf<Id>): Promise<Response> {
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
   * Opens a stream, with retries until it is open and none afterwards. Leaving the loop disconnects, which cancels the
   * operation. A failure of the service is thrown; an error of the code is an event.
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
   * Yields the events of a command up to its `exit`. Resumes an interrupted stream where it stopped, and waits up to 30
   * seconds for an unreachable service, for example while it restarts. Leaving the loop does not affect the command.
   * @param afterPause resolves when the stream can be opened again after a pause of the sandbox has ended it.
   */
  follow(
    id: FollowId,
    request: RequestOf<FollowId>,
    afterPause?: () => Promise<void>,
  ): AsyncGenerator<CommandEvent, void> {
    return this.#resuming(id, request, {
      afterPause,
      read: readCommandEvents,
      seqOf: (event) => (event.type === 'log' ? event.data.seq : undefined),
      isLast: ({ type }) => type === 'exit',
    });
  }

  /** Yields the events of a build up to `complete`. Resumes an interrupted stream as `follow` does. */
  followBuild(id: BuildFollowId, request: RequestOf<BuildFollowId>): AsyncGenerator<TemplateBuildEvent, void> {
    return this.#resuming(id, request, {
      read: readBuildEvents,
      seqOf: (event) => (event.type === 'log' ? event.data.seq : undefined),
      isLast: ({ type }) => type === 'complete',
    });
  }

  /**
   * Yields events until the caller leaves the loop. Resumes an interrupted stream as `follow` does, without losing or
   * repeating an event.
   */
  followEvents(id: EventFeedId, request: RequestOf<EventFeedId>): AsyncGenerator<ResourceEvent, void> {
    const read = readNumberedEvents<ResourceEvent>;
    return this.#resuming(id, request, { read, seqOf: ({ seq }) => seq, isLast: () => false });
  }

  /** Yields the events of a workspace run up to its `exit`. Resumes an interrupted stream as `followEvents` does. */
  followRun(id: RunFeedId, request: RequestOf<RunFeedId>): AsyncGenerator<WorkspaceRunStreamEvent, void> {
    return this.#resuming(id, request, {
      read: readNumberedEvents<WorkspaceRunStreamEvent>,
      seqOf: (event) => (event.type === 'exit' ? undefined : event.seq),
      isLast: ({ type }) => type === 'exit',
    });
  }

  /**
   * Yields changes until the service or the caller ends the stream. Changes after an interruption are not reported.
   * @param onOpen called once, when all later changes will be reported.
   */
  async *watch(id: WatchId, request: RequestOf<WatchId>, onOpen: () => void): AsyncGenerator<FileEvent, void> {
    const prepared = prepareRequest(id, forgetTypes(request), this.#options);
    const deadline = new Deadline(prepared.timeoutMs, request.signal);
    try {
      const body = await this.#retrying(prepared, deadline, readEventBody);
      onOpen();
      yield* readFileEvents(body, deadline);
    } catch (error) {
      throw outcomeOf(error, prepared, deadline, request.signal);
    } finally {
      deadline.close();
    }
  }

  /** Sends bytes to a URL that the service has signed. */
  put(url: string, upload: SignedUpload): Promise<void> {
    return putSigned(this.#options.fetch, url, upload);
  }

  /**
   * Starts to open a WebSocket. Fails on platforms that cannot set its headers, such as browsers.
   * @throws {ClocheError} `invalid_options` on a platform without WebSocket
   */
  openSocket<Id extends SocketId>(id: Id, request: RequestOf<Id>): WebSocket {
    const { url, init } = prepareRequest(id, forgetTypes(request), this.#options);
    const { authorization = '' } = init.headers;
    const { webSocket: Socket } = this.#options;
    if (!Socket) {
      const message =
        'This platform has no WebSocket; use Node 22 or newer, or pass `webSocket`, such as that of the package ws.';
      throw new ClocheError('invalid_options', message);
    }
    return new Socket(url.replace(/^http/, 'ws'), { headers: { authorization } });
  }

  async *#resuming<Event>(
    id: FollowId | BuildFollowId | EventFeedId | RunFeedId,
    request: RequestOf<FollowId> | RequestOf<BuildFollowId> | RequestOf<EventFeedId> | RequestOf<RunFeedId>,
    { read, seqOf, isLast, afterPause }: Resumption<Event>,
  ): AsyncGenerator<Event, void> {
    let afterSeq = request.query?.afterSeq ?? 0;
    let failures = 0;
    let hasBeenOpen = false;
    const outage = this.outage(request);
    for (;;) {
      const resumed: AnyRequest = { ...forgetTypes(request), query: { ...request.query, afterSeq } };
      const prepared = prepareRequest(id, resumed, this.#options);
      const deadline = new Deadline(prepared.timeoutMs, request.signal);
      let openedAt: number | undefined;
      let isPaused = false;
      try {
        const body = await this.#retrying(prepared, deadline, readEventBody);
        openedAt = performance.now();
        hasBeenOpen = true;
        outage.noteResponse();
        for await (const event of read(body, deadline)) {
          failures = 0;
          afterSeq = seqOf(event) ?? afterSeq;
          yield event;
          if (isLast(event)) return;
          outage.noteResponse();
        }
      } catch (error) {
        const outcome = outcomeOf(error, prepared, deadline, request.signal);
        // A proxy may end each stream that is silent for a minute; that is no failure of the service.
        if (openedAt !== undefined && performance.now() - openedAt >= STEADY_MS) failures = 0;
        isPaused = hasBeenOpen && afterPause !== undefined && isClocheError(outcome, 'sandbox_paused');
        const mayReturn = openedAt === undefined && (await outage.shouldRetry(outcome));
        const mayResume = isClocheError(outcome, 'stream_interrupted', 'unavailable');
        if (!isPaused && !mayReturn && !(mayResume && failures < prepared.maxRetries)) throw outcome;
        if (!isPaused && !mayReturn) failures += 1;
      } finally {
        deadline.close();
      }
      if (isPaused) await afterPause?.();
    }
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
        const error = sourceError(cause) ?? unreachable(this.url, request, cause);
        const kind = retryKind(error, request);
        if (kind === 'never' || (kind === 'again' && retries >= request.maxRetries)) throw error;
        const pauseMs = retryPauseMs(error, kind === 'again' ? retries++ : waits++, request.retryDelayMs);
        if (pauseMs >= deadline.remainingMs) throw error;
        await deadline.sleep(pauseMs);
      }
    }
  }

  #fetch(request: PreparedRequest, signal: AbortSignal): Promise<Response> {
    // Redirects are not followed: a redirect could turn a POST into a GET or send the key to another host.
    return this.#options.fetch(request.url, { ...request.init, ...request.body(), redirect: 'manual', signal });
  }
}

/** Drops the operation's types. The caller's types were checked; sending treats all operations alike. */
function forgetTypes(request: unknown): AnyRequest {
  return (request ?? {}) as AnyRequest;
}
