import { Type } from 'typebox';
import { FileEntry, FilePath } from '../file.ts';
import type { Operation } from '../operation.ts';
import { SandboxParams } from './sandboxes.ts';

const FileResponse = Type.Object({ file: FileEntry });
const common = { tag: 'Files', idempotency: 'none', params: SandboxParams } as const;
const ENDED = ['sandbox_destroyed', 'sandbox_failed'] as const;
const content = '/v1/sandboxes/{sandboxId}/files/content';

export const readFile = {
  ...common,
  id: 'readFile',
  method: 'GET',
  path: content,
  summary: 'Read a file',
  description:
    'Its bytes as they are, streamed; HEAD answers with the headers alone. The ETag is strong: it changes with the ' +
    'content. Only files can be read: a folder, pipe or device is a `conflict`.',
  scope: 'file:read',
  query: Type.Object({ path: FilePath }, { additionalProperties: false }),
  headers: {
    range: 'One range of bytes, as in `bytes=0-99`, `bytes=100-` or `bytes=-100`; of several the whole file comes.',
    'if-range': 'An ETag; with another one the range is ignored.',
    'if-match': 'ETags, or `*`; otherwise `precondition_failed`.',
    'if-none-match': 'ETags; 304 when the file still has one of them.',
  },
  response: { status: 200, schema: Type.String(), description: 'The whole file.' },
  download: {
    contentTypes: ['application/octet-stream'],
    description: 'The bytes.',
    also: { 206: 'The range that was asked for.', 304: 'The file still has that ETag.' },
  },
  errors: ['conflict', 'precondition_failed', 'range_not_satisfiable', ...ENDED],
} as const satisfies Operation;

export const writeFile = {
  ...common,
  id: 'writeFile',
  method: 'PUT',
  path: content,
  summary: 'Write a file',
  description:
    'The body replaces the file at once when all of it has arrived, and not at all otherwise. Missing folders are ' +
    'made. A file that was there keeps its mode and owner; a new one is `0644` and the user’s, or of whoever owns a ' +
    'folder that the user cannot write to. A symbolic link is followed.',
  scope: 'file:write',
  query: Type.Object(
    {
      path: FilePath,
      mode: Type.Optional(
        Type.String({ pattern: '^[0-7]{3,4}$', description: 'Permissions in octal, for a new file and an old one.' }),
      ),
    },
    { additionalProperties: false },
  ),
  headers: {
    'if-match': 'ETags that the file must have one of, or `*`: there must be one; otherwise `precondition_failed`.',
    'if-none-match': '`*`: only where there is none yet; otherwise `precondition_failed`.',
  },
  upload: { contentTypes: ['application/octet-stream'], description: 'The whole file; any Content-Type will do.' },
  response: { status: 200, schema: FileResponse, description: 'The file as it is now.' },
  errors: ['conflict', 'precondition_failed', 'disk_full', ...ENDED],
} as const satisfies Operation;
