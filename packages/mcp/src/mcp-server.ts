import type { Cloche } from '@cloche/sdk';
import { McpServer } from '@modelcontextprotocol/server';
import { artifactTools } from './tools/artifact-tools.ts';
import { codeTools } from './tools/code-tools.ts';
import { commandTools } from './tools/command-tools.ts';
import { fileTools } from './tools/file-tools.ts';
import { previewTools } from './tools/preview-tools.ts';
import { sandboxTools } from './tools/sandbox-tools.ts';
import { registerTool, type Tool } from './tools/tool.ts';

/** All tools, described once: a server is created for each request. */
export const TOOLS: readonly Tool[] = [
  ...codeTools,
  ...sandboxTools,
  ...commandTools,
  ...fileTools,
  ...artifactTools,
  ...previewTools,
];

/**
 * Creates a server whose tools make requests with this client.
 *
 * @param gone aborts all calls
 */
export function mcpServer(cloche: Cloche, version: string, gone?: AbortSignal): McpServer {
  const server = new McpServer(
    { name: 'cloche', title: 'Cloche sandboxes', version },
    {
      instructions:
        'Runs code, commands and files in isolated sandboxes. `run_code` without `sandboxId` creates a sandbox and returns its ' +
        'id; give that id to the following calls, so that variables and files are kept. Destroy what you no longer need.',
    },
  );
  for (const tool of TOOLS) registerTool(server, tool, cloche, gone);
  return server;
}
