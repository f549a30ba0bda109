import { type Cloche, isClocheError } from '@cloche/sdk';
import {
  type McpServer,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  ResourceTemplate,
} from '@modelcontextprotocol/server';
import type { McpSession } from '../sessions/session.ts';
import { asResource } from './file-content.ts';
import { artifactsFrom, listedArtifacts, listedFiles, pathsFrom, sandboxesFrom } from './listed.ts';
import { readResource } from './read-resource.ts';
import { ARTIFACT_TEMPLATE, FILE_TEMPLATE } from './uris.ts';

export interface ResourceDeps {
  readonly cloche: Cloche;
  readonly session: McpSession | undefined;
  /** Aborts all requests. */
  readonly gone: AbortSignal | undefined;
}

/**
 * Adds files of sandboxes and artifacts to a server as resources. The list has files of the session's sandbox, and the
 * newest artifacts.
 */
export function registerResources(server: McpServer, { cloche, session, gone }: ResourceDeps): void {
  const signalOf = (signal: AbortSignal) => (gone ? AbortSignal.any([signal, gone]) : signal);
  const files = new ResourceTemplate(FILE_TEMPLATE, {
    list: async ({ mcpReq }) => ({ resources: await listedFiles(cloche, session?.sandboxId, signalOf(mcpReq.signal)) }),
    complete: {
      sandboxId: (begun) => sandboxesFrom(cloche, begun),
      path: (begun, context) => pathsFrom(cloche, context?.arguments?.sandboxId ?? session?.sandboxId, begun),
    },
  });
  const artifacts = new ResourceTemplate(ARTIFACT_TEMPLATE, {
    list: async ({ mcpReq }) => ({ resources: await listedArtifacts(cloche, signalOf(mcpReq.signal)) }),
    complete: { artifactId: (begun) => artifactsFrom(cloche, begun) },
  });
  const file = { title: 'File of a sandbox', description: 'A file of at most 1 MiB, by its absolute path.' };
  const artifact = { title: 'Artifact', description: 'A file of at most 1 MiB that outlives its sandbox.' };
  for (const [name, template, metadata] of [
    ['file', files, file],
    ['artifact', artifacts, artifact],
  ] as const) {
    server.registerResource(name, template, metadata, async (uri, _variables, { mcpReq }) => {
      try {
        return { contents: [asResource(await readResource(cloche, uri.href, signalOf(mcpReq.signal)))] };
      } catch (error) {
        throw isClocheError(error) ? protocolError(error, uri.href) : error;
      }
    });
  }
}

/** Returns a refusal as an error of the protocol. */
export function protocolError({ code, message }: { code: string; message: string }, uri: string): ProtocolError {
  const text = `${code}: ${message}`;
  return code === 'not_found'
    ? new ResourceNotFoundError(uri, text)
    : new ProtocolError(ProtocolErrorCode.InvalidParams, text);
}
