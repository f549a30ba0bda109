import {
  type FromKernel,
  type RunDone,
  type RunError,
  type RunOperation,
  type StartRun,
  Stopwatch,
} from '@cloche/protocol';
import { BoundedText } from '../base/bounded-text.ts';
import type { StandardStream } from '../base/standard-stream.ts';
import { EventWriter } from './event-writer.ts';
import { OutputForms } from './output-forms.ts';

/** How a note calls a message that was left out. */
const MESSAGE_TYPE = 'text/x-message';

/** Receives the events of a run. */
export interface RunClient {
  /** Whether the client reads too slowly, so that the kernel should be paused. */
  readonly congested: boolean;
  write(lines: string): void;
  /** Called after the last event of `run` has been written. */
  end(run: Run): void;
}

export interface RunListener {
  timedOut(run: Run): void;
  /** The client disconnected before the run ended. */
  abandoned(run: Run): void;
  /** The client has read what was buffered. */
  relieved(run: Run): void;
}

/** One execution as its client sees it: a stream of events that ends once, with `done`. */
export class Run {
  readonly id: string;
  readonly code: string;
  readonly operation: RunOperation | undefined;
  /** The message of a client that the run answers. */
  readonly message: string | undefined;
  readonly timeoutMs: number;
  readonly #arrivedAt: number;
  readonly #client: RunClient;
  readonly #writer: EventWriter;
  readonly #texts: Record<StandardStream, BoundedText>;
  readonly #forms: OutputForms;
  readonly #stopwatch: Stopwatch | undefined;
  #listener: RunListener | undefined;
  #timer: NodeJS.Timeout | undefined;
  #openedAt = 0;
  #begunAt: number | undefined;
  #ended = false;

  /** @param arrivedAt on the clock of `performance.now()`. */
  constructor(start: StartRun, client: RunClient, arrivedAt: number) {
    this.id = start.runId;
    this.code = start.code;
    this.operation = start.operation;
    this.message = start.message;
    this.timeoutMs = start.timeoutMs;
    this.#arrivedAt = arrivedAt;
    this.#client = client;
    this.#writer = new EventWriter(start.runId, client);
    this.#texts = {
      stdout: new BoundedText('stdout', start.limits.stdoutBytes),
      stderr: new BoundedText('stderr', start.limits.stderrBytes),
    };
    this.#forms = new OutputForms(start.limits);
    this.#stopwatch = start.timed ? new Stopwatch(arrivedAt) : undefined;
  }

  get ended(): boolean {
    return this.#ended;
  }

  get begun(): boolean {
    return this.#begunAt !== undefined;
  }

  get congested(): boolean {
    return !this.#ended && this.#client.congested;
  }

  /** Starts the timeout, which counts from the arrival of the request. */
  watch(listener: RunListener): void {
    this.#listener = listener;
    const leftMs = this.timeoutMs - (performance.now() - this.#arrivedAt);
    this.#timer = setTimeout(() => listener.timedOut(this), Math.max(0, leftMs));
  }

  /** Call when the client disconnects. */
  abandon(): void {
    if (!this.#ended) this.#listener?.abandoned(this);
  }

  /** Call when the client has read what was buffered. */
  relieve(): void {
    this.#listener?.relieved(this);
  }

  /** Call when the context is open. */
  opened(): void {
    this.#openedAt = performance.now();
    this.#stopwatch?.note('open', this.#openedAt - this.#arrivedAt);
  }

  begin(): void {
    this.#begunAt = performance.now();
    this.#stopwatch?.note('queue', this.#begunAt - this.#openedAt);
  }

  printed(stream: StandardStream, bytes: Buffer): void {
    if (!this.#ended) this.#writer.text(stream, this.#texts[stream].push(bytes));
  }

  output(message: Extract<FromKernel, { type: 'output' }>): void {
    if (this.#ended) return;
    for (const output of this.#forms.convert(message.role, message.forms)) {
      this.#writer.event({ type: 'output', runId: this.id, data: output });
    }
  }

  /**
   * Sends a message of the kernel to the client, if the run answers one. A message that is too large becomes an output.
   */
  tell(message: string): void {
    if (this.#ended || this.message === undefined) return;
    if (this.#forms.admits(message)) {
      this.#writer.event({ type: 'message', runId: this.id, data: message });
      return;
    }
    for (const output of this.#forms.convert('display', { [MESSAGE_TYPE]: message })) {
      this.#writer.event({ type: 'output', runId: this.id, data: output });
    }
  }

  /** Ends the stream. Does nothing if it has ended. */
  finish(result: { executionCount: number; error?: RunError; stateLost?: boolean }): void {
    if (this.#ended) return;
    clearTimeout(this.#timer);
    for (const stream of ['stdout', 'stderr'] as const) this.#writer.text(stream, this.#texts[stream].end());
    this.#ended = true;
    const { executionCount, error, stateLost } = result;
    if (error !== undefined) this.#writer.event({ type: 'error', runId: this.id, data: error });
    const truncated = this.#truncated();
    if (this.#begunAt !== undefined) this.#stopwatch?.note('execute', performance.now() - this.#begunAt);
    const timings = this.#stopwatch?.read();
    this.#writer.end({
      type: 'done',
      runId: this.id,
      data: {
        executionCount,
        durationMs: this.#begunAt === undefined ? 0 : Math.round(performance.now() - this.#begunAt),
        ...(error !== undefined && { error }),
        ...(truncated !== undefined && { truncated }),
        ...(stateLost && { stateLost }),
        ...(timings !== undefined && { timings }),
      },
    });
    this.#client.end(this);
  }

  #truncated(): RunDone['truncated'] {
    const { cutBytes: stdout } = this.#texts.stdout;
    const { cutBytes: stderr } = this.#texts.stderr;
    if (stdout === 0 && stderr === 0) return undefined;
    return { ...(stdout > 0 && { stdout }), ...(stderr > 0 && { stderr }) };
  }
}
