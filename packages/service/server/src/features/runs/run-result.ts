import {
  type CodeExecutionError,
  type CodeOutput,
  type CodeRun,
  type CodeRunEvent,
  type KernelMessageEvent,
  LIMITS,
} from '@cloche/contract';
import { jsonBytes } from '@cloche/node-support';
import type { AgentOutput, AgentRunEvent, RunDone, RunError } from '@cloche/protocol';
import { AgentError } from '@cloche/runtime';
import { cutBytes } from '@cloche/runtime/cut-bytes';
import type { ContextRecord } from '../contexts/context.ts';
import type { PromotedOutput } from './promote-outputs.ts';

/** The agent's limit, plus room for the truncation notice. */
const STREAM_BYTES = LIMITS.outputStreamBytes + 4096;
/** Size counted per output besides its value, so that a flood of empty outputs is bounded too. */
const OUTPUT_OVERHEAD_BYTES = 256;
/** Replaces a large output of a run that has no artifact left for it. */
const TOO_MANY = `[cloche: an output left out; a run stores at most ${LIMITS.promotedOutputs} as artifacts]`;
const ERROR_NAME_LENGTH = 256;
const ERROR_TEXT_LENGTH = 64 * 1024;
const TRACEBACK_LINES = 1000;

/** Collects the result of one run from its events. Limits apply to the JSON size, because JSON is stored and sent. */
export class RunResult {
  readonly #context: ContextRecord;
  readonly #runId: string;
  readonly #timeoutMs: number;
  readonly #takesMessages: boolean;
  readonly #stdout = new BoundedText('stdout');
  readonly #stderr = new BoundedText('stderr');
  readonly #outputs: CodeOutput[] = [];
  #outputBytes = 0;
  #inlineBytes = 0;
  #promoted = 0;
  #error: CodeExecutionError | undefined;
  #done: RunDone | undefined;
  #isStateLost = false;

  constructor(context: ContextRecord, runId: string, timeoutMs: number, takesMessages = false) {
    this.#context = context;
    this.#runId = runId;
    this.#timeoutMs = timeoutMs;
    this.#takesMessages = takesMessages;
  }

  get isDone(): boolean {
    return this.#done !== undefined;
  }

  /**
   * Adds an event. Returns the event for a stream's client, if any: only the first error is reported, and `complete`
   * reports the end.
   *
   * @throws AgentError `misbehaved` for another run's event or for data over the agent's limits.
   */
  take(event: AgentRunEvent): KernelMessageEvent | undefined {
    this.#requireOwn(event);
    switch (event.type) {
      case 'message':
        if (!this.#takesMessages)
          throw new AgentError('misbehaved', 'The agent sent a message in a run that takes none.');
        this.#admit({ value: event.data, mimeType: '' }, LIMITS.inlineOutputBytes, LIMITS.inlineOutputsBytes);
        return { type: 'message', data: event.data };
      case 'stdout':
        this.#stdout.add(event.data);
        return { type: 'stdout', data: event.data };
      case 'stderr':
        this.#stderr.add(event.data);
        return { type: 'stderr', data: event.data };
      case 'output':
        return { type: 'output', data: this.#takeOutput(event.data) };
      case 'error':
        return this.fail(event.data);
      case 'done':
        this.#done = event.data;
        return event.data.error ? this.fail(event.data.error) : undefined;
    }
  }

  /** Adds an output as `take` does, and uses `promote` to store it as an artifact where needed. */
  async takePromoting(
    event: Extract<AgentRunEvent, { type: 'output' }>,
    promote: (output: AgentOutput, index: number, inlineBytesLeft: number) => Promise<PromotedOutput | undefined>,
  ): Promise<CodeRunEvent> {
    this.#requireOwn(event);
    const { format, mimeType, value, role, bundle } = event.data;
    this.#admit(event.data, LIMITS.promotedOutputBytes, LIMITS.promotedOutputsBytes);
    const inlineBytesLeft = LIMITS.inlineOutputsBytes - this.#inlineBytes;
    const mayPromote = this.#promoted < LIMITS.promotedOutputs;
    const promoted = mayPromote ? await promote(event.data, this.#outputs.length, inlineBytesLeft) : undefined;
    let output: CodeOutput;
    if (promoted) {
      this.#promoted += 1;
      output = { kind: 'artifact', ...promoted, format, mimeType, role, bundle };
    } else if (jsonBytes(value) <= Math.min(LIMITS.inlineOutputBytes, inlineBytesLeft)) {
      this.#inlineBytes += jsonBytes(value);
      output = { kind: 'inline', value, format, mimeType, role, bundle };
    } else output = { kind: 'inline', value: TOO_MANY, format: 'text', mimeType: 'text/plain', role, bundle };
    this.#outputs.push(output);
    return { type: 'output', data: output };
  }

  /** Sets the run's error. Returns undefined when the run already has one. */
  fail(error: RunError): CodeRunEvent | undefined {
    if (this.#error) return undefined;
    this.#error = isOwnTimeout(error) ? timeoutError(this.#timeoutMs) : bounded(error);
    return { type: 'error', data: this.#error };
  }

  /** Records that the context was reopened before this run, so its state was lost. */
  noteStateLost(): void {
    this.#isStateLost = true;
  }

  complete(): CodeRun {
    const done = this.#done;
    const truncated = cutBytes(done?.truncated);
    return {
      sandboxId: this.#context.sandboxId,
      contextId: this.#context.id,
      language: this.#context.language,
      executionCount: done?.executionCount ?? 0,
      stdout: this.#stdout.text,
      stderr: this.#stderr.text,
      outputs: this.#outputs,
      ...(this.#error ? { error: this.#error } : { durationMs: done?.durationMs ?? 0 }),
      ...(truncated ? { truncated } : {}),
      ...(this.#isStateLost || done?.stateLost ? { stateLost: true } : {}),
    };
  }

  #requireOwn({ runId }: AgentRunEvent): void {
    if (runId === this.#runId) return;
    throw new AgentError('misbehaved', "The agent sent an event of another run in this run's stream.");
  }

  #admit(
    { value, mimeType }: Pick<AgentOutput, 'value' | 'mimeType'>,
    outputBytes: number,
    outputsBytes: number,
  ): void {
    const bytes = jsonBytes(value);
    this.#outputBytes += bytes + jsonBytes(mimeType) + OUTPUT_OVERHEAD_BYTES;
    if (this.#outputBytes <= outputsBytes + STREAM_BYTES && bytes <= outputBytes) return;
    throw new AgentError('misbehaved', 'The agent sent outputs over the given bounds.');
  }

  #takeOutput(given: AgentOutput): CodeOutput {
    const { kind, format, mimeType, value, role, bundle } = given;
    this.#admit(given, LIMITS.inlineOutputBytes, LIMITS.inlineOutputsBytes);
    const output: CodeOutput = { kind, format, value, mimeType, role, bundle };
    this.#outputs.push(output);
    return output;
  }
}

export function timeoutError(timeoutMs: number): CodeExecutionError {
  return { name: 'TimeoutError', message: `The run did not end within ${timeoutMs} ms.` };
}

/**
 * Returns whether it is the service's own timeout: an exception of that name has a traceback. The agent's message
 * states only the remaining time.
 */
function isOwnTimeout({ name, traceback }: RunError): boolean {
  return name === 'TimeoutError' && traceback === undefined;
}

class BoundedText {
  readonly #name: string;
  readonly #chunks: string[] = [];
  #bytes = 0;

  constructor(name: string) {
    this.#name = name;
  }

  get text(): string {
    return this.#chunks.join('');
  }

  add(chunk: string): void {
    // Counting one byte for an empty chunk bounds a flood of them too.
    this.#bytes += jsonBytes(chunk) + (chunk === '' ? 1 : 0);
    if (this.#bytes > STREAM_BYTES)
      throw new AgentError('misbehaved', `The agent sent more ${this.#name} than the given bound.`);
    this.#chunks.push(chunk);
  }
}

function bounded({ name, message, traceback }: RunError): CodeExecutionError {
  return {
    name: name.slice(0, ERROR_NAME_LENGTH),
    message: message.slice(0, ERROR_TEXT_LENGTH),
    ...(traceback ? { traceback: boundedLines(traceback) } : {}),
  };
}

/** Keeps the end of a traceback, which is its most useful part. */
function boundedLines(lines: readonly string[]): string[] {
  let left = ERROR_TEXT_LENGTH;
  const kept: string[] = [];
  for (const line of lines.slice(-TRACEBACK_LINES).reverse()) {
    if (left <= 0) break;
    kept.push(line.slice(0, left));
    left -= line.length;
  }
  return kept.reverse();
}
