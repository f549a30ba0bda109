import { type Cloche, isClocheError } from '@cloche/sdk';
import type { CallToolResult, McpServer } from '@modelcontextprotocol/server';
import type { z } from 'zod';

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

type Run<Input, Output> = (input: Input, signal: AbortSignal) => Promise<ToolAnswer<Output>>;

/** Registers tools whose failures are texts that say what to do. */
export class Tools {
  readonly cloche: Cloche;
  readonly #server: McpServer;

  constructor(server: McpServer, cloche: Cloche) {
    this.#server = server;
    this.cloche = cloche;
  }

  /** `run` is aborted when the client cancels the call or disconnects. */
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
      try {
        const { output: structured, content } = await run(args as z.output<Input>, mcpReq.signal);
        const text = content ?? [{ type: 'text', text: JSON.stringify(structured) }];
        return { content: text, structuredContent: structured };
      } catch (error) {
        if (!isClocheError(error)) throw error;
        return { content: [{ type: 'text', text: `${error.code}: ${error.message}` }], isError: true };
      }
    });
  }
}
