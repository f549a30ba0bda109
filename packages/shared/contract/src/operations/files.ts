import { Type } from 'typebox';
import { ARCHIVE_FORMATS, FileEntry, FileEvent, FilePath, FileUser, TransferFileBody } from '../file.ts';
import { LIMITS } from '../limits.ts';
import { listOf, oneOf, PAGE } from '../list.ts';
import { CONTENT_DIGEST, type Operation } from '../operation.ts';
import { SandboxParams } from './sandboxes.ts';

const FileResponse = Type.Object({ file: FileEntry });
const common = { tag: 'Files', idempotency: 'none', params: SandboxParams } as const;
const details = Type.Optional(
  Type.Boolean({ default: false, description: 'Adds `attributes`, and `resolved` of symbolic links.' }),
);
const ENDED = ['sandbox_destroyed', 'sandbox_failed', 'sandbox_incompatible'] as const;
const collection = '/v1/sandboxes/{sandboxId}/files';
const content = '/v1/sandboxes/{sandboxId}/files/content';

export const readFile = {
  ...common,
  id: 'readFile',
  method: 'GET',
  path: content,
  summary: 'Read a file',
  description:
    'Streams the content. `HEAD` returns only the headers. The ETag is strong: it changes with the content. Reading a ' +
    'directory, pipe, socket or device is a `conflict`.',
  scope: 'file:read',
  query: Type.Object({ path: FilePath, user: FileUser }, { additionalProperties: false }),
  headers: {
    range:
      'One range of bytes: `bytes=0-99`, `bytes=100-` or `bytes=-100`. With several ranges the response is the whole file.',
    'if-range': 'An ETag. If the file has a different ETag, `Range` is ignored.',
    'if-match': 'ETags, or `*` for any. If the file has none of them, the error is `precondition_failed`.',
    'if-none-match': 'ETags. If the file has one of them, the response is 304.',
  },
  response: { status: 200, schema: Type.String(), description: 'The whole file.' },
  download: {
    contentTypes: ['application/octet-stream'],
    description: 'The bytes.',
    also: { 206: 'The requested range.', 304: 'The file has one of the ETags in `If-None-Match`.' },
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
    'The body becomes the content of the file in one step when all of it has arrived. If the upload breaks off, the old ' +
    'file stays. Missing directories are created. A new file has the mode `0644` and belongs to `user`. A replaced file ' +
    'keeps its mode and belongs to `user`; with `root` it also keeps its owner. Replacing a file requires write permission ' +
    'for its directory. A symbolic link is followed.',
  scope: 'file:write',
  query: Type.Object(
    {
      path: FilePath,
      mode: Type.Optional(
        Type.String({
          pattern: '^[0-7]{3,4}$',
          description: 'Permissions in octal. Default: those of the replaced file, or `0644`.',
        }),
      ),
      user: FileUser,
    },
    { additionalProperties: false },
  ),
  headers: {
    'if-match': 'ETags, or `*` for any. If the file has none of them, the error is `precondition_failed`.',
    'if-none-match': '`*`: write only if the file does not exist; otherwise the error is `precondition_failed`.',
    'content-digest': CONTENT_DIGEST,
    'file-attributes':
      'A JSON object of texts: extended attributes of the namespace `user.`, by names without this prefix. A replaced file ' +
      'loses those that it had.',
  },
  upload: {
    contentTypes: ['application/octet-stream'],
    description: 'The content. Any `Content-Type` is accepted; without a body the file becomes empty.',
    mayBeEmpty: true,
  },
  response: { status: 200, schema: FileResponse, description: 'The file.' },
  errors: ['permission_denied', 'conflict', 'precondition_failed', 'disk_full', ...ENDED],
} as const satisfies Operation;

export const listFiles = {
  ...common,
  id: 'listFiles',
  method: 'GET',
  path: collection,
  summary: 'List a directory',
  description:
    'Lists the entries of the directory and, down to `depth` levels, of its subdirectories. A directory precedes its ' +
    'entries, and the names in a directory are ordered by their bytes. Symbolic links are not followed. Subdirectories ' +
    `that the user cannot read are listed without their entries. A listing has at most ${LIMITS.fileListEntries} entries ` +
    `and ${LIMITS.fileListBytes / 1024 ** 2} MiB; a longer one is \`invalid_request\`: request fewer levels or a subdirectory.`,
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
      details,
      user: FileUser,
      ...PAGE,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(FileEntry), description: 'The entries.' },
  errors: ['permission_denied', 'conflict', ...ENDED],
} as const satisfies Operation;

export const statFile = {
  ...common,
  id: 'statFile',
  method: 'GET',
  path: `${collection}/stat`,
  summary: 'Get the properties of a file',
  description: 'Works for a file, directory, symbolic link, pipe, socket or device. A link is not followed.',
  scope: 'file:read',
  query: Type.Object({ path: FilePath, details, user: FileUser }, { additionalProperties: false }),
  response: { status: 200, schema: FileResponse, description: 'The properties.' },
  errors: ['permission_denied', 'conflict', ...ENDED],
} as const satisfies Operation;

export const makeDirectory = {
  ...common,
  id: 'makeDirectory',
  method: 'POST',
  path: `${collection}/directories`,
  summary: 'Create a directory',
  description: 'Missing parent directories are created too. An existing directory is left unchanged.',
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
  description:
    'The move is a single step. `to` is the new path, not a directory to move into. Missing parent directories are created.',
  scope: 'file:write',
  idempotency: 'optional',
  body: TransferFileBody,
  response: { status: 200, schema: FileResponse, description: 'The file or directory at `to`.' },
  errors: ['permission_denied', 'conflict', 'disk_full', ...ENDED],
} as const satisfies Operation;

export const copyFile = {
  ...common,
  id: 'copyFile',
  method: 'POST',
  path: `${collection}/copy`,
  summary: 'Copy a file or a directory',
  description:
    'The copy appears at `to` when it is complete, and belongs to `user`. Symbolic links are copied as links; copying a ' +
    'pipe, socket or device is a `conflict`.',
  scope: 'file:write',
  idempotency: 'optional',
  body: TransferFileBody,
  response: { status: 200, schema: FileResponse, description: 'The file or directory at `to`.' },
  errors: ['permission_denied', 'conflict', 'disk_full', ...ENDED],
} as const satisfies Operation;

export const deleteFile = {
  ...common,
  id: 'deleteFile',
  method: 'DELETE',
  path: collection,
  summary: 'Delete a file or a directory',
  description:
    'A directory that is not empty is deleted only with `recursive=true`. A symbolic link is deleted, not its target.',
  scope: 'file:write',
  query: Type.Object(
    {
      path: FilePath,
      recursive: Type.Optional(Type.Boolean({ default: false, description: 'Delete a directory with its contents.' })),
      user: FileUser,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: FileResponse, description: 'The properties of the deleted file or directory.' },
  errors: ['permission_denied', 'conflict', ...ENDED],
} as const satisfies Operation;

export const readArchive = {
  ...common,
  id: 'readArchive',
  method: 'GET',
  path: `${collection}/archive`,
  summary: 'Read a directory as an archive',
  description:
    'The archive contains the entries of the directory, without the directory itself, or a single file. Symbolic links ' +
    'stay links; pipes, sockets and devices are left out. If the user cannot read an entry, the error is ' +
    '`permission_denied` with its path. The archive is created while it is sent: a later failure breaks the connection off.',
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
    'The body is a tar (plain, gzip or zstd) or a zip; the service detects the format. A missing directory is created; ' +
    'files replace files, directories are merged, and everything that is unpacked belongs to `user`. An archive is refused ' +
    'as a whole if a path or link leads out of the directory, if it contains a device, or if it does not fit on the disk.',
  scope: 'file:write',
  query: Type.Object(
    { path: Type.Optional({ ...FilePath, default: '/workspace' }), user: FileUser },
    { additionalProperties: false },
  ),
  headers: { 'content-digest': CONTENT_DIGEST },
  upload: {
    contentTypes: ['application/gzip', 'application/x-tar', 'application/zip', 'application/zstd'],
    description: 'The archive. Any `Content-Type` is accepted.',
  },
  response: {
    status: 200,
    schema: Type.Object({
      file: FileEntry,
      entries: Type.Integer({ minimum: 0, description: 'Number of entries of the archive.' }),
      sizeBytes: Type.Integer({ minimum: 0, description: 'Size of all files in the archive.' }),
    }),
    description: 'The directory, with the number and size of the unpacked entries.',
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
    'Sends server-sent events for changes in the directory and, with `recursive=true`, in its subdirectories, from the ' +
    'moment the stream opens. Changes of one file within a few milliseconds are reported as one event. Symbolic links are ' +
    'not followed. The last event is `complete` when the directory was deleted, or `error` if the service failed ' +
    'or the sandbox was paused (`sandbox_paused`).',
  scope: 'file:read',
  query: Type.Object(
    {
      path: Type.Optional({ ...FilePath, default: '/workspace' }),
      recursive: Type.Optional(Type.Boolean({ default: false, description: 'Watch its subdirectories too.' })),
      user: FileUser,
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: Type.String(), description: 'A stream of events.' },
  events: FileEvent,
  errors: ['permission_denied', 'conflict', ...ENDED],
} as const satisfies Operation;
