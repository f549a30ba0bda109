import { type Cloche, isClocheError } from '@cloche/sdk';
import type { CallToolResult, McpServer, ServerContext } from '@modelcontextprotocol/server';
import type { z } from 'zod';
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
  /** Tells the host what was printed, if it wants to know of progress. */
  readonly report: (output: string) => void;
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

/**
 * Adds a tool to a server whose calls make requests with this client.
 *
 * @param gone aborts all calls
 */
export function registerTool(server: McpServer, tool: Tool, cloche: Cloche, gone?: AbortSignal): void {
  const { name, title, description, input, output, readOnly = false, run } = tool;
  const annotations = { readOnlyHint: readOnly, openWorldHint: false };
  const config = { title, description, inputSchema: input, outputSchema: output, annotations };
  server.registerTool(name, config, async (args, { mcpReq }): Promise<CallToolResult> => {
    using progress = progressOf(mcpReq);
    const signal = gone ? AbortSignal.any([mcpReq.signal, gone]) : mcpReq.signal;
    try {
      const call = { cloche, signal, report: (printed: string) => progress?.report(printed) };
      const { output: structured, content } = await run(args, call);
      const text = content ?? [{ type: 'text', text: JSON.stringify(structured) }];
      return { content: text, structuredContent: structured };
    } catch (error) {
      if (!isClocheError(error)) throw error;
      return { content: [{ type: 'text', text: `${error.code}: ${error.message}` }], isError: true };
    }
  });
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
