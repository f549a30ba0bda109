import type { CodeContext, CodeOutput, CodeRun, CodeRunEvent, Language, RunCodeBody } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { ClocheError } from './cloche-error.ts';
import type { CallOptions } from './request.ts';

type MaybePromise = void | Promise<void>;

export interface StreamOptions extends Omit<CallOptions, 'timeoutMs'> {
  /** Cancels the run; the call then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Default: the context's, or `python` where only its id or nothing is given. */
  language?: Language | undefined;
  /** Where the code's variables live. Default: the sandbox's default context of the language. */
  context?: ContextRef | undefined;
  /** Milliseconds after which the execution is interrupted and the run answers with `TimeoutError`. Default: 60000. */
  timeoutMs?: number | undefined;
  /** Must be the context's own where given. */
  cwd?: string | undefined;
  /** `promote` keeps binary and large outputs as artifacts. Default: `inline_only`. */
  artifactPolicy?: RunCodeBody['artifactPolicy'] | undefined;
}

/** A context's handle, what the service says of it, or its id alone. */
export type ContextRef = string | Pick<CodeContext, 'id' | 'language'>;

/** With any of the three, output arrives while the code runs. The run waits for a promise that one returns. */
export interface RunOptions extends StreamOptions {
  onStdout?: ((text: string) => MaybePromise) | undefined;
  onStderr?: ((text: string) => MaybePromise) | undefined;
  onOutput?: ((output: CodeOutput) => MaybePromise) | undefined;
}

/** Runs code to its end. Code that fails or times out is no error here: see `error` of the result. */
export async function runCode(
  client: ApiClient,
  sandboxId: CodeContext['sandboxId'],
  code: string,
  options: RunOptions,
): Promise<CodeRun> {
  // A run that is not streamed goes on when its client has gone; one that can be aborted must end then.
  const streams = options.onStdout ?? options.onStderr ?? options.onOutput ?? options.signal;
  if (!streams) {
    return (await client.call('runCode', runRequest(sandboxId, code, options))).run;
  }
  for await (const event of streamCode(client, sandboxId, code, options)) {
    if (event.type === 'complete') return event.data;
    if (event.type === 'stdout') await options.onStdout?.(event.data);
    if (event.type === 'stderr') await options.onStderr?.(event.data);
    if (event.type === 'output') await options.onOutput?.(event.data);
  }
  throw new ClocheError('stream_interrupted', 'The stream ended without a result.');
}

/** The events of a run as they happen, `complete` last. Leaving the loop cancels the run. */
export function streamCode(
  client: ApiClient,
  sandboxId: CodeContext['sandboxId'],
  code: string,
  options: StreamOptions,
): AsyncGenerator<CodeRunEvent, void> {
  return client.stream('streamCode', runRequest(sandboxId, code, options));
}

function runRequest(sandboxId: CodeContext['sandboxId'], code: string, options: StreamOptions) {
  const { language, context, cwd, timeoutMs, artifactPolicy, signal, idempotencyKey, maxRetries } = options;
  const body: RunCodeBody = {
    code,
    language: language ?? (typeof context === 'object' ? context.language : 'python'),
    ...(context === undefined ? {} : { contextId: typeof context === 'object' ? context.id : context }),
    ...(cwd === undefined ? {} : { cwd }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(artifactPolicy === undefined ? {} : { artifactPolicy }),
  };
  return { params: { sandboxId }, body, signal, idempotencyKey, maxRetries };
}
