import type { CodeContext, CodeOutput, CodeRun, CodeRunEvent, Language, RunCodeBody } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { ClocheError } from './cloche-error.ts';
import type { CallOptions } from './request.ts';

type MaybePromise = void | Promise<void>;

export interface StreamOptions extends Omit<CallOptions, 'timeoutMs'> {
  /** Cancels the run; the call then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Default: the context's language, or `python` if no context or only its id is given. */
  language?: Language | undefined;
  /** Context of the run. Default: the sandbox's default context of the language. */
  context?: ContextRef | undefined;
  /** Milliseconds after which the run is interrupted and ends with `TimeoutError`. Default: 60000. */
  timeoutMs?: number | undefined;
  /** Working directory. It must equal the `cwd` of the context. */
  cwd?: string | undefined;
  /** `promote` stores binary and large outputs as artifacts. Default: `inline_only`. */
  artifactPolicy?: RunCodeBody['artifactPolicy'] | undefined;
}

/** A context's handle, its info, or only its id. */
export type ContextRef = string | Pick<CodeContext, 'id' | 'language'>;

/**
 * With any of the callbacks, output arrives while the code runs. The run waits for a promise that a callback returns.
 */
export interface RunOptions extends StreamOptions {
  onStdout?: ((text: string) => MaybePromise) | undefined;
  onStderr?: ((text: string) => MaybePromise) | undefined;
  onOutput?: ((output: CodeOutput) => MaybePromise) | undefined;
}

/** Runs code to its end. Code that fails or times out does not throw: see `error` of the result. */
export async function runCode(
  client: ApiClient,
  sandboxId: CodeContext['sandboxId'],
  code: string,
  options: RunOptions,
): Promise<CodeRun> {
  // Only a streamed run ends when its client disconnects, so a run that can be aborted is streamed.
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

/** Yields the events of a run as they happen, `complete` last. Leaving the loop cancels the run. */
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
