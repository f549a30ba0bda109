import type { Cloche } from '@cloche/sdk';
import { McpServer } from '@modelcontextprotocol/server';
import { registerPrompts } from './prompts/register-prompts.ts';
import { registerResources } from './resources/register-resources.ts';
import type { McpSession } from './sessions/session.ts';
import { handleSubscriptions } from './subscriptions/handle-subscriptions.ts';
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

export interface McpServerOptions {
  readonly cloche: Cloche;
  readonly version: string;
  /** Undefined for a client without one. */
  readonly session: McpSession | undefined;
  /** Whether the client has a session or is about to get one. */
  readonly hasStream: boolean;
  /** Aborts all calls. */
  readonly gone?: AbortSignal | undefined;
}

/** Creates a server whose tools, resources and prompts make requests with this client. */
export function mcpServer({ cloche, version, session, hasStream, gone }: McpServerOptions): McpServer {
  const never = { listChanged: false };
  const server = new McpServer(
    { name: 'cloche', title: 'Cloche sandboxes', version },
    {
      capabilities: {
        tools: never,
        resources: { ...never, subscribe: hasStream },
        prompts: never,
        logging: {},
      },
      instructions:
        'Runs code, commands and files in isolated sandboxes. A client with sessions has a sandbox of its own, which calls ' +
        'without `sandboxId` use and which ends with the session. For other clients, a first call without `sandboxId` creates ' +
        'one; give the id that it returns to the following calls, so that variables and files are kept.',
    },
  );
  server.server.setRequestHandler('logging/setLevel', async ({ params }) => {
    await session?.setLogLevel(params.level);
    return {};
  });
  if (session) handleSubscriptions(server, session);
  const deps = { cloche, session, gone };
  for (const tool of TOOLS) registerTool(server, tool, deps);
  registerResources(server, deps);
  registerPrompts(server, deps);
  return server;
}
