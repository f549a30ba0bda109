import type { Cloche } from '@cloche/sdk';
import { McpServer } from '@modelcontextprotocol/server';
import { addArtifactTools } from './tools/artifact-tools.ts';
import { addCodeTools } from './tools/code-tools.ts';
import { addCommandTools } from './tools/command-tools.ts';
import { addFileTools } from './tools/file-tools.ts';
import { addPreviewTools } from './tools/preview-tools.ts';
import { addSandboxTools } from './tools/sandbox-tools.ts';
import { Tools } from './tools/tools.ts';

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
  const tools = new Tools(server, cloche, gone);
  addCodeTools(tools);
  addSandboxTools(tools);
  addCommandTools(tools);
  addFileTools(tools);
  addArtifactTools(tools);
  addPreviewTools(tools);
  return server;
}
