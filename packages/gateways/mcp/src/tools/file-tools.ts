import type { FileEntry, SandboxId } from '@cloche/contract';
import { type Cloche, Files } from '@cloche/sdk';
import { z } from 'zod';
import { asBlock } from '../resources/file-content.ts';
import { readFile } from '../resources/read-resource.ts';
import { path, usedSandboxId } from './schemas.ts';
import { describeTool } from './tool.ts';

/** Longest text that one call writes. With escapes, it must also fit the body of a request. */
const WRITTEN_LENGTH = 8 * 1024 * 1024;

const entry = z.object({ path: z.string(), type: z.string(), sizeBytes: z.int(), modifiedAt: z.string() });
const at = {
  sandboxId: usedSandboxId,
  path: path().describe('Absolute path, or relative to /workspace.'),
};

/** The tools for files. */
export const fileTools = [
  describeTool(
    'file_read',
    {
      title: 'Read a file',
      description:
        'Returns a file of at most 1 MiB: text, a picture, a sound, or else its bytes as an embedded resource.',
      input: z.object(at),
      output: z.object({
        text: z.string().optional().describe('The content, if it is text.'),
        mimeType: z.string(),
        sizeBytes: z.int(),
      }),
      readOnly: true,
    },
    async ({ sandboxId, path }, { cloche, signal, sandbox }) => {
      const file = await readFile(cloche, await sandbox.id(sandboxId), path, signal);
      const { text, mimeType, bytes } = file;
      const output = { ...(text === undefined ? {} : { text }), mimeType, sizeBytes: bytes.length };
      return { output, content: [text === undefined ? asBlock(file) : { type: 'text', text }] };
    },
  ),
  describeTool(
    'file_write',
    {
      title: 'Write a file',
      description: 'Creates or replaces a text file, with the directories that are missing.',
      input: z.object({ ...at, text: z.string().max(WRITTEN_LENGTH).describe('The content.') }),
      output: z.object({ sandboxId: z.string(), file: entry }),
    },
    async ({ sandboxId, path, text }, { cloche, signal, sandbox }) => {
      const bytes = new TextEncoder().encode(text);
      const usedId = await sandbox.id(sandboxId, true);
      const file = await filesOf(cloche, usedId).write(path, bytes, { signal });
      return { output: { sandboxId: usedId, file: entryOf(file) } };
    },
  ),
  describeTool(
    'file_list',
    {
      title: 'List a directory',
      description: 'Lists a directory and, down to `depth`, what is below it.',
      input: z.object({ ...at, depth: z.int().min(1).max(10).default(1) }),
      output: z.object({ files: z.array(entry) }),
      readOnly: true,
    },
    async ({ sandboxId, path, depth }, { cloche, signal, sandbox }) => {
      const files = await filesOf(cloche, await sandbox.id(sandboxId)).list(path, { depth, signal });
      return { output: { files: files.map(entryOf) } };
    },
  ),
  describeTool(
    'file_move',
    {
      title: 'Move a file',
      description: 'Moves or renames a file or a directory.',
      input: z.object({ ...at, to: path().describe('The new path.') }),
      output: z.object({ file: entry }),
    },
    async ({ sandboxId, path, to }, { cloche, signal, sandbox }) => {
      const file = await filesOf(cloche, await sandbox.id(sandboxId)).move(path, to, { signal });
      return { output: { file: entryOf(file) } };
    },
  ),
  describeTool(
    'file_delete',
    {
      title: 'Delete a file',
      description: 'Deletes a file, or a directory with everything in it.',
      input: z.object(at),
      output: z.object({ file: entry }),
    },
    async ({ sandboxId, path }, { cloche, signal, sandbox }) => {
      const file = await filesOf(cloche, await sandbox.id(sandboxId)).remove(path, { recursive: true, signal });
      return { output: { file: entryOf(file) } };
    },
  ),
];

function filesOf(cloche: Cloche, sandboxId: SandboxId): Files {
  return new Files(cloche, sandboxId);
}

function entryOf({ path, type, sizeBytes, modifiedAt }: FileEntry) {
  return { path, type, sizeBytes, modifiedAt };
}
