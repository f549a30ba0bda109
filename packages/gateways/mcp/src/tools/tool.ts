import { type Cloche, isClocheError } from '@cloche/sdk';
import type { CallToolResult, McpServer, ServerContext } from '@modelcontextprotocol/server';
import type { z } from 'zod';
import type { McpSession } from '../sessions/session.ts';
import { UsedSandbox } from '../sessions/used-sandbox.ts';
import { type CallLog, logOf } from './call-log.ts';
import { Progress } from './progress.ts';

export type Content = CallToolResult['content'];

/** The answer of a tool: an object of its output schema, and optionally content that is shown instead of its JSON. */
export interface ToolAnswer<Output> {
  readonly output: Output;
  readonly content?: Content;
}

export interface ToolDescription<Input extends z.ZodObject, Output extends z.ZodObject> {
  readonly title: string;
  readonly description: string;
  readonly input: Input;
  readonly output: Output;
  /** Changes nothing. Default: false. */
  readonly readOnly?: boolean;
}

export interface ToolCall {
  readonly cloche: Cloche;
  /** Aborts when the client cancels the call or disconnects. */
  readonly signal: AbortSignal;
  /** Tells the host what was printed, if it wants progress or messages. */
  readonly output: { readonly onStdout: (text: string) => void; readonly onStderr: (text: string) => void };
  /** Finds the sandbox of the call. */
  readonly sandbox: UsedSandbox;
}

type Run<Input, Output> = (input: Input, call: ToolCall) => Promise<ToolAnswer<Output>>;

/** A tool, described once for all requests. */
export interface Tool extends ToolDescription<z.ZodObject, z.ZodObject> {
  readonly name: string;
  readonly run: Run<unknown, Record<string, unknown>>;
}

/** Describes a tool whose failures are texts that say what to do. */
export function describeTool<Input extends z.ZodObject, Output extends z.ZodObject>(
  name: string,
  { input, output, ...description }: ToolDescription<Input, Output>,
  run: Run<z.output<Input>, z.output<Output>>,
): Tool {
  // Sound: `registerTool` passes `run` what `input` has checked.
  return { name, input: withJsonOnce(input), output: withJsonOnce(output), ...description, run: run as Tool['run'] };
}

export interface ToolDeps {
  readonly cloche: Cloche;
  readonly session: McpSession | undefined;
  /** Aborts all calls. */
  readonly gone: AbortSignal | undefined;
}

/** Adds a tool to a server. */
export function registerTool(server: McpServer, tool: Tool, { cloche, session, gone }: ToolDeps): void {
  const { name, title, description, input, output, readOnly = false } = tool;
  const annotations = { readOnlyHint: readOnly, openWorldHint: false };
  const config = { title, description, inputSchema: input, outputSchema: output, annotations };
  server.registerTool(name, config, async (args, { mcpReq }): Promise<CallToolResult> => {
    using progress = progressOf(mcpReq);
    const log = logOf(mcpReq, name, session?.logLevel);
    const signal = gone ? AbortSignal.any([mcpReq.signal, gone]) : mcpReq.signal;
    const sandbox = new UsedSandbox({ cloche, session, signal });
    const startedAt = performance.now();
    log.add('debug', { event: 'started' });
    const answer = await answerOf(tool, args, { cloche, signal, sandbox, output: outputTo(progress, log) });
    const { note } = sandbox;
    if (note !== undefined) log.add('info', { event: 'sandbox', text: note });
    log.add('debug', { event: answer.isError ? 'failed' : 'ended', durationMs: performance.now() - startedAt });
    return note === undefined ? answer : { ...answer, content: [...answer.content, { type: 'text', text: note }] };
  });
}

/** Answers a call. A refusal is a text that says what to do. */
async function answerOf({ run }: Tool, args: unknown, call: ToolCall): Promise<CallToolResult> {
  try {
    const { output, content } = await run(args, call);
    return { content: content ?? [{ type: 'text', text: JSON.stringify(output) }], structuredContent: output };
  } catch (error) {
    if (!isClocheError(error)) throw error;
    return { content: [{ type: 'text', text: `${error.code}: ${error.message}` }], isError: true };
  }
}

/** Passes on what is printed while a call runs. */
function outputTo(progress: Progress | undefined, log: CallLog): ToolCall['output'] {
  const to = (level: 'info' | 'warning', event: 'stdout' | 'stderr') => (text: string) => {
    progress?.report(text);
    log.add(level, { event, text });
  };
  return { onStdout: to('info', 'stdout'), onStderr: to('warning', 'stderr') };
}

/**
 * Remembers the JSON Schema of a schema. The library asks for it with each list of tools and each call, and making it
 * for all tools takes longer than the rest of a request.
 */
function withJsonOnce(schema: z.ZodObject): z.ZodObject {
  const standard = schema['~standard'];
  const { input, output } = standard.jsonSchema;
  const jsonSchema = { input: once(input), output: once(output) };
  return Object.defineProperty(schema, '~standard', { value: { ...standard, jsonSchema } });
}

/** Sound for one argument only: the library always asks for the same version of JSON Schema. */
function once<Options, Result extends object>(make: (options: Options) => Result): (options: Options) => Result {
  let made: Result | undefined;
  return (options) => {
    made ??= make(options);
    return { ...made };
  };
}

/** Returns undefined for a host that has not asked for progress. */
function progressOf({ _meta, notify }: ServerContext['mcpReq']): Progress | undefined {
  const progressToken = _meta?.progressToken;
  if (progressToken === undefined) return undefined;
  return new Progress((progress, message) => {
    // A host that has gone has aborted the call, too.
    notify({ method: 'notifications/progress', params: { progressToken, progress, message } }).catch(() => undefined);
  });
}
