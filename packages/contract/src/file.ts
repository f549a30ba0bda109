import { type Static, Type } from 'typebox';
import { COMMAND_USERS, type CommandUser } from './command.ts';
import { LIMITS } from './limits.ts';
import { oneOf } from './list.ts';

/** Where a file is, as requests and answers write it. */
export const FilePath = Type.String({
  minLength: 1,
  maxLength: LIMITS.filePathLength,
  description:
    'Absolute, or relative to `/workspace`; or a `file:///` URI whose percent escapes spell any byte. Answers have ' +
    'absolute paths, and URIs for those that are not valid UTF-8.',
});

/** Whose rights an operation on files has. */
export type FileUser = CommandUser;
export const FileUser = Type.Optional({
  ...oneOf(
    COMMAND_USERS,
    'Whose rights the operation has: those of the user that code runs as, or of the root of the sandbox, which is root ' +
      'of nothing else. What they do not allow is `permission_denied`.',
  ),
  default: 'user',
});

export const FILE_TYPES = ['file', 'directory', 'symlink', 'other'] as const;
export type FileType = (typeof FILE_TYPES)[number];

export const FileEntry = Type.Object(
  {
    path: FilePath,
    name: Type.String({ description: 'The last part of the path; what is not valid UTF-8 in it is replaced.' }),
    type: oneOf(FILE_TYPES, '`other`: a pipe, a socket or a device.'),
    sizeBytes: Type.Integer({ minimum: 0 }),
    mode: Type.String({ description: 'Permissions in octal, as in `0644`.' }),
    uid: Type.Integer({ minimum: 0 }),
    gid: Type.Integer({ minimum: 0 }),
    modifiedAt: Type.String({ description: 'Timestamp.' }),
    etag: Type.Optional(Type.String({ description: 'Of a file: the ETag of its content.' })),
    target: Type.Optional(Type.String({ description: 'What a symbolic link points to, as it is written in it.' })),
  },
  { $id: 'FileEntry' },
);
export type FileEntry = Static<typeof FileEntry>;

/** The body of a move and of a copy. */
export const TransferFileBody = Type.Object(
  {
    from: FilePath,
    to: FilePath,
    overwrite: Type.Optional(
      Type.Boolean({ default: false, description: 'Replace what is at `to`, also a whole directory.' }),
    ),
    user: FileUser,
  },
  { additionalProperties: false, examples: [{ from: 'draft.txt', to: 'final.txt' }] },
);
export type TransferFileBody = Static<typeof TransferFileBody>;

export const ARCHIVE_FORMATS = ['tar', 'tar.gz', 'zip'] as const;
export type ArchiveFormat = (typeof ARCHIVE_FORMATS)[number];

const change = <const Name extends string>(type: Name, description: string) =>
  Type.Object({ type: Type.Literal(type), data: Type.Object({ path: FilePath }) }, { description });
const notice = <const Name extends string>(type: Name, description: string) =>
  Type.Object({ type: Type.Literal(type), data: Type.Object({}) }, { description });

/** What a watch tells. A move is a deletion and a creation. */
export const FileEvent = Type.Union(
  [
    change('created', 'There is something new.'),
    change('modified', 'Its content or its permissions have changed.'),
    change('deleted', 'It is gone.'),
    notice('overflow', 'There were more changes than could be told: look again at what matters.'),
    notice('complete', 'The directory itself is gone, and the stream ends.'),
  ],
  { $id: 'FileEvent' },
);
export type FileEvent = Static<typeof FileEvent>;
