import { PREVIEW_VISIBILITIES } from '@cloche/contract';
import { Previews, previewLink } from '@cloche/sdk';
import { z } from 'zod';
import { usedSandboxId } from './schemas.ts';
import { describeTool } from './tool.ts';

/** The tool that shows what a program of a sandbox serves. */
export const previewTools = [
  describeTool(
    'preview_open',
    {
      title: 'Open a preview',
      description:
        'Serves a port of a sandbox at a URL, for example that of a web server that `command_start` has started. Anyone ' +
        'with the link can open it.',
      input: z.object({
        sandboxId: usedSandboxId,
        port: z.int().min(1).max(65_535).describe('Port inside the sandbox.'),
        visibility: z
          .enum(PREVIEW_VISIBILITIES)
          .default('private')
          .describe('`private`: the link has a token. `public`: it has none.'),
        ttlMs: z.int().min(1).optional().describe('Lifetime in milliseconds. Default: that of the sandbox.'),
      }),
      output: z.object({ previewId: z.string(), url: z.string(), expiresAt: z.string() }),
    },
    async ({ sandboxId, port, visibility, ttlMs }, { cloche, signal, sandbox }) => {
      const usedId = await sandbox.id(sandboxId);
      const previews = new Previews(cloche, usedId);
      const preview = await previews.open(port, { visibility, ttlMs, signal });
      const { id: previewId, expiresAt } = preview;
      const url = previewLink(preview);
      return {
        output: { previewId, url, expiresAt },
        content: [
          { type: 'text', text: url },
          { type: 'resource_link', uri: url, name: `port ${port} of ${usedId}`, mimeType: 'text/html' },
        ],
      };
    },
  ),
];
