import type { FileEntry, SandboxId } from '@cloche/contract';
import { bytesUpTo } from '@cloche/node-support';
import { type Cloche, ClocheError, Files } from '@cloche/sdk';
import { z } from 'zod';
import { path, sandboxId } from './schemas.ts';
import { describeTool } from './tool.ts';

/** Largest file that one call returns. */
const READ_BYTES = 1024 * 1024;
/** Longest text that one call writes. With escapes, it must also fit the body of a request. */
const WRITTEN_LENGTH = 8 * 1024 * 1024;

const entry = z.object({ path: z.string(), type: z.string(), sizeBytes: z.int(), modifiedAt: z.string() });
const at = {
  sandboxId,
  path: path().describe('Absolute path, or relative to /workspace.'),
};

/** The tools for files. */
export const fileTools = [
  describeTool(
    'file_read',
    {
      title: 'Read a file',
      description: 'Returns a text file of at most 1 MiB.',
      input: z.object(at),
      output: z.object({ text: z.string() }),
      readOnly: true,
    },
    async ({ sandboxId, path }, { cloche, signal }) => {
      // Counted while it is read: a program in the sandbox may replace the file at any moment.
      const { body } = await filesOf(cloche, sandboxId).stream(path, { signal });
      const bytes = await bytesUpTo(READ_BYTES, body);
      if (!bytes) {
        const message = `${path} has more than ${READ_BYTES} bytes; read a part of it with command_run.`;
        throw new ClocheError('invalid_options', message);
      }
      const text = new TextDecoder().decode(bytes);
      return { output: { text }, content: [{ type: 'text', text }] };
    },
  ),
  describeTool(
    'file_write',
    {
      title: 'Write a file',
      description: 'Creates or replaces a text file, with the directories that are missing.',
      input: z.object({ ...at, text: z.string().max(WRITTEN_LENGTH).describe('The content.') }),
      output: z.object({ file: entry }),
    },
    async ({ sandboxId, path, text }, { cloche, signal }) => {
      const bytes = new TextEncoder().encode(text);
      const file = await filesOf(cloche, sandboxId).write(path, bytes, { signal });
      return { output: { file: entryOf(file) } };
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
    async ({ sandboxId, path, depth }, { cloche, signal }) => {
      const files = await filesOf(cloche, sandboxId).list(path, { depth, signal });
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
    async ({ sandboxId, path, to }, { cloche, signal }) => {
      const file = await filesOf(cloche, sandboxId).move(path, to, { signal });
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
    async ({ sandboxId, path }, { cloche, signal }) => {
      const file = await filesOf(cloche, sandboxId).remove(path, { recursive: true, signal });
      return { output: { file: entryOf(file) } };
    },
  ),
];

function filesOf(cloche: Cloche, sandboxId: string): Files {
  return new Files(cloche, sandboxId as SandboxId);
}

function entryOf({ path, type, sizeBytes, modifiedAt }: FileEntry) {
  return { path, type, sizeBytes, modifiedAt };
}
