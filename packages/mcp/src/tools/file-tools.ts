import type { FileEntry, SandboxId } from '@cloche/contract';
import { ClocheError, Files } from '@cloche/sdk';
import { z } from 'zod';
import type { Tools } from './tools.ts';

/** Largest file that one call returns. */
const READ_BYTES = 1024 * 1024;

const entry = z.object({ path: z.string(), type: z.string(), sizeBytes: z.int(), modifiedAt: z.string() });
const at = {
  sandboxId: z.string().describe('Id of the sandbox.'),
  path: z.string().min(1).describe('Absolute path, or relative to /workspace.'),
};

/** Adds the tools for files. */
export function addFileTools(tools: Tools): void {
  const { cloche } = tools;
  const filesOf = (sandboxId: string) => new Files(cloche, sandboxId as SandboxId);
  tools.add(
    'file_read',
    {
      title: 'Read a file',
      description: 'Returns a text file of at most 1 MiB.',
      input: z.object(at),
      output: z.object({ text: z.string() }),
      readOnly: true,
    },
    async ({ sandboxId, path }, { signal }) => {
      const files = filesOf(sandboxId);
      const { sizeBytes } = await files.stat(path, { signal });
      if (sizeBytes > READ_BYTES) {
        const message = `${path} has ${sizeBytes} bytes, more than ${READ_BYTES}; read a part of it with command_run.`;
        throw new ClocheError('invalid_options', message);
      }
      const text = await files.readText(path, { signal });
      return { output: { text }, content: [{ type: 'text', text }] };
    },
  );
  tools.add(
    'file_write',
    {
      title: 'Write a file',
      description: 'Creates or replaces a text file, with the directories that are missing.',
      input: z.object({ ...at, text: z.string().describe('The content.') }),
      output: z.object({ file: entry }),
    },
    async ({ sandboxId, path, text }, { signal }) => {
      const bytes = new TextEncoder().encode(text);
      const file = await filesOf(sandboxId).write(path, bytes, { signal });
      return { output: { file: entryOf(file) } };
    },
  );
  tools.add(
    'file_list',
    {
      title: 'List a directory',
      description: 'Lists a directory and, down to `depth`, what is below it.',
      input: z.object({ ...at, depth: z.int().min(1).max(10).default(1) }),
      output: z.object({ files: z.array(entry) }),
      readOnly: true,
    },
    async ({ sandboxId, path, depth }, { signal }) => {
      const files = await filesOf(sandboxId).list(path, { depth, signal });
      return { output: { files: files.map(entryOf) } };
    },
  );
  tools.add(
    'file_move',
    {
      title: 'Move a file',
      description: 'Moves or renames a file or a directory.',
      input: z.object({ ...at, to: z.string().min(1).describe('The new path.') }),
      output: z.object({ file: entry }),
    },
    async ({ sandboxId, path, to }, { signal }) => {
      const file = await filesOf(sandboxId).move(path, to, { signal });
      return { output: { file: entryOf(file) } };
    },
  );
  tools.add(
    'file_delete',
    {
      title: 'Delete a file',
      description: 'Deletes a file, or a directory with everything in it.',
      input: z.object(at),
      output: z.object({ file: entry }),
    },
    async ({ sandboxId, path }, { signal }) => {
      const file = await filesOf(sandboxId).remove(path, { recursive: true, signal });
      return { output: { file: entryOf(file) } };
    },
  );
}

function entryOf({ path, type, sizeBytes, modifiedAt }: FileEntry) {
  return { path, type, sizeBytes, modifiedAt };
}
