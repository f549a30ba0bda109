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
  /** Aborts when the client cancels the call or disconnects. */
  readonly signal: AbortSignal;
  /** Tells the host what was printed, if it wants to know of progress. */
  readonly report: (output: string) => void;
}

type Run<Input, Output> = (input: Input, call: ToolCall) => Promise<ToolAnswer<Output>>;

/** Registers tools whose failures are texts that say what to do. */
export class Tools {
  readonly cloche: Cloche;
  readonly #server: McpServer;
  readonly #gone: AbortSignal | undefined;

  /** @param gone aborts all calls */
  constructor(server: McpServer, cloche: Cloche, gone?: AbortSignal) {
    this.#server = server;
    this.#gone = gone;
    this.cloche = cloche;
  }

  add<Input extends z.ZodObject, Output extends z.ZodObject>(
    name: string,
    { title, description, input, output, readOnly = false }: ToolDescription<Input, Output>,
    run: Run<z.output<Input>, z.output<Output>>,
  ): void {
    const annotations = { readOnlyHint: readOnly, openWorldHint: false };
    const config = {
      title,
      description,
      inputSchema: input as z.ZodObject,
      outputSchema: output as z.ZodObject,
      annotations,
    };
    this.#server.registerTool(name, config, async (args, { mcpReq }): Promise<CallToolResult> => {
      using progress = progressOf(mcpReq);
      const signal = this.#gone ? AbortSignal.any([mcpReq.signal, this.#gone]) : mcpReq.signal;
      const call = { signal, report: (output: string) => progress?.report(output) };
      try {
        const { output: structured, content } = await run(args as z.output<Input>, call);
        const text = content ?? [{ type: 'text', text: JSON.stringify(structured) }];
        return { content: text, structuredContent: structured };
      } catch (error) {
        if (!isClocheError(error)) throw error;
        return { content: [{ type: 'text', text: `${error.code}: ${error.message}` }], isError: true };
      }
    });
  }
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
