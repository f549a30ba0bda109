import { Type } from 'typebox';
import { ARCHIVE_FORMATS, FileEntry, FileEvent, FilePath, FileUser, TransferFileBody } from '../file.ts';
import { LIMITS } from '../limits.ts';
import { listOf, oneOf } from '../list.ts';
import type { Operation } from '../operation.ts';
import { SandboxParams } from './sandboxes.ts';

const FileResponse = Type.Object({ file: FileEntry });
const common = { tag: 'Files', idempotency: 'none', params: SandboxParams } as const;
const ENDED = ['sandbox_destroyed', 'sandbox_failed'] as const;
const collection = '/v1/sandboxes/{sandboxId}/files';
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
  query: Type.Object({ path: FilePath, user: FileUser }, { additionalProperties: false }),
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
  errors: ['permission_denied', 'conflict', 'precondition_failed', 'range_not_satisfiable', ...ENDED],
} as const satisfies Operation;

export const writeFile = {
  ...common,
  id: 'writeFile',
  method: 'PUT',
  path: content,
  summary: 'Write a file',
  description:
    'The body replaces the file at once when all of it has arrived, and not at all otherwise. Missing folders are ' +
    'made. The file belongs to the `user` of the request; root leaves one that was there to its owner. One that was there ' +
    'keeps its mode, a new one is `0644`. A symbolic link is followed. To replace a file one must be allowed to write in ' +
    'its directory.',
  scope: 'file:write',
  query: Type.Object(
    {
      path: FilePath,
      mode: Type.Optional(
        Type.String({ pattern: '^[0-7]{3,4}$', description: 'Permissions in octal, for a new file and an old one.' }),
      ),
      user: FileUser,
    },
    { additionalProperties: false },
  ),
  headers: {
    'if-match': 'ETags that the file must have one of, or `*`: there must be one; otherwise `precondition_failed`.',
    'if-none-match': '`*`: only where there is none yet; otherwise `precondition_failed`.',
  },
  upload: { contentTypes: ['application/octet-stream'], description: 'The whole file; any Content-Type will do.' },
  response: { status: 200, schema: FileResponse, description: 'The file as it is now.' },
  errors: ['permission_denied', 'conflict', 'precondition_failed', 'disk_full', ...ENDED],
} as const satisfies Operation;

export const listFiles = {
  ...common,
  id: 'listFiles',
  method: 'GET',
  path: collection,
  summary: 'List a directory',
  description:
    'What is in it and, down to `depth`, below it: a directory comes before what it holds, names of one directory in the ' +
    'order of their bytes. Links are listed and not followed. Directories below it that the user may not read are listed ' +
    `without their content. More than ${LIMITS.fileListEntries} entries, or ${LIMITS.fileListBytes / 1024 ** 2} MiB of them, are ` +
    '`invalid_request`: list less deeply, or a directory of it.',
  scope: 'file:read',
  query: Type.Object(
    {
      path: Type.Optional({ ...FilePath, default: '/workspace' }),
      depth: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: LIMITS.fileListDepth,
          default: 1,
          description: 'How many levels to list.',
        }),
      ),
      user: FileUser,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(FileEntry), description: 'All of them.' },
  errors: ['permission_denied', 'conflict', ...ENDED],
} as const satisfies Operation;

export const statFile = {
  ...common,
  id: 'statFile',
  method: 'GET',
  path: `${collection}/stat`,
  summary: 'Describe a file',
  description: 'Or a directory, a link or whatever else there is at the path; a link is not followed.',
  scope: 'file:read',
  query: Type.Object({ path: FilePath, user: FileUser }, { additionalProperties: false }),
  response: { status: 200, schema: FileResponse, description: 'What is there.' },
  errors: ['permission_denied', 'conflict', ...ENDED],
} as const satisfies Operation;

export const makeDirectory = {
  ...common,
  id: 'makeDirectory',
  method: 'POST',
  path: `${collection}/directories`,
  summary: 'Make a directory',
  description: 'And those above it that are missing. One that is there already stays as it is.',
  scope: 'file:write',
  idempotency: 'optional',
  body: Type.Object(
    { path: FilePath, user: FileUser },
    { additionalProperties: false, examples: [{ path: 'results/plots' }] },
  ),
  response: { status: 201, schema: FileResponse, description: 'The directory.' },
  errors: ['permission_denied', 'conflict', 'disk_full', ...ENDED],
} as const satisfies Operation;

export const moveFile = {
  ...common,
  id: 'moveFile',
  method: 'POST',
  path: `${collection}/move`,
  summary: 'Move or rename a file or a directory',
  description: 'In one step, and never into `to`: that is its new path. Missing directories above it are made.',
  scope: 'file:write',
  idempotency: 'optional',
  body: TransferFileBody,
  response: { status: 200, schema: FileResponse, description: 'What is at `to` now.' },
  errors: ['permission_denied', 'conflict', 'disk_full', ...ENDED],
} as const satisfies Operation;

export const copyFile = {
  ...common,
  id: 'copyFile',
  method: 'POST',
  path: `${collection}/copy`,
  summary: 'Copy a file or a directory',
  description:
    'It appears at `to` when all of it is there. Links are copied as links; pipes, sockets and devices are a `conflict`. ' +
    'The copy belongs to the `user` of the request.',
  scope: 'file:write',
  idempotency: 'optional',
  body: TransferFileBody,
  response: { status: 200, schema: FileResponse, description: 'What is at `to` now.' },
  errors: ['permission_denied', 'conflict', 'disk_full', ...ENDED],
} as const satisfies Operation;

export const deleteFile = {
  ...common,
  id: 'deleteFile',
  method: 'DELETE',
  path: collection,
  summary: 'Delete a file or a directory',
  description: 'A directory that is not empty only with `recursive=true`. A link is deleted, not what it points to.',
  scope: 'file:write',
  query: Type.Object(
    {
      path: FilePath,
      recursive: Type.Optional(Type.Boolean({ default: false, description: 'Delete a directory with its contents.' })),
      user: FileUser,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: FileResponse, description: 'What was there.' },
  errors: ['permission_denied', 'conflict', ...ENDED],
} as const satisfies Operation;

export const readArchive = {
  ...common,
  id: 'readArchive',
  method: 'GET',
  path: `${collection}/archive`,
  summary: 'Read a directory as an archive',
  description:
    'What is in it, without a directory around; of a file, the file alone. Links are kept as links; pipes, sockets and ' +
    'devices are left out. What the user may not read is `permission_denied`, with its path, before anything is sent. The ' +
    'archive is made while it is sent, so a failure on the way breaks the connection.',
  scope: 'file:read',
  query: Type.Object(
    {
      path: Type.Optional({ ...FilePath, default: '/workspace' }),
      format: Type.Optional({ ...oneOf(ARCHIVE_FORMATS, 'Format of the archive.'), default: 'tar.gz' }),
      user: FileUser,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: Type.String(), description: 'The archive.' },
  download: {
    contentTypes: ['application/gzip', 'application/x-tar', 'application/zip'],
    description: 'The archive.',
  },
  errors: ['permission_denied', 'conflict', ...ENDED],
} as const satisfies Operation;

export const writeArchive = {
  ...common,
  id: 'writeArchive',
  method: 'PUT',
  path: `${collection}/archive`,
  summary: 'Unpack an archive into a directory',
  description:
    'A tar, plain or compressed by gzip or zstd, or a zip: the bytes tell which. The directory is made where it is ' +
    'missing; files replace files, directories are joined, and all that is unpacked belongs to the `user` of the request. An archive with a path ' +
    'or a link that leads out of it, a device, or more than there is room for is refused, and nothing is written.',
  scope: 'file:write',
  query: Type.Object(
    { path: Type.Optional({ ...FilePath, default: '/workspace' }), user: FileUser },
    { additionalProperties: false },
  ),
  upload: {
    contentTypes: ['application/gzip', 'application/x-tar', 'application/zip', 'application/zstd'],
    description: 'The archive; any Content-Type will do.',
  },
  response: {
    status: 200,
    schema: Type.Object({
      file: FileEntry,
      entries: Type.Integer({ minimum: 0, description: 'Of the archive.' }),
      sizeBytes: Type.Integer({ minimum: 0, description: 'Of the files in it.' }),
    }),
    description: 'The directory, and what was put in it.',
  },
  errors: ['permission_denied', 'conflict', 'disk_full', ...ENDED],
} as const satisfies Operation;

export const watchFiles = {
  ...common,
  id: 'watchFiles',
  method: 'GET',
  path: `${collection}/watch`,
  summary: 'Watch a directory',
  description:
    'Server-sent events of `{ type, data }` for what changes in it and, with `recursive=true`, below it, from the moment ' +
    'that the stream opens. Changes of one file within a few milliseconds are told as one. Links are not followed; directories below it ' +
    'that the user may not read are not watched. The last is `complete` when the directory is gone, or `error` whose `data.name` is an error code.',
  scope: 'file:read',
  query: Type.Object(
    {
      path: Type.Optional({ ...FilePath, default: '/workspace' }),
      recursive: Type.Optional(Type.Boolean({ default: false, description: 'Watch directories below it too.' })),
      user: FileUser,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: Type.String(), description: 'The event stream.' },
  events: FileEvent,
  errors: ['permission_denied', 'conflict', ...ENDED],
} as const satisfies Operation;
