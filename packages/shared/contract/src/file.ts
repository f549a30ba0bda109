import { type Static, type TProperties, Type } from 'typebox';
import { COMMAND_USERS, type CommandUser } from './command.ts';
import { LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { documented, Text } from './text.ts';
import { timestamp } from './timestamps.ts';

/**
 * A path of at most 4096 bytes whose names have at most 255, or a URI. The pattern counts characters, so it accepts
 * some paths that have too many bytes.
 */
export const FILE_PATH_PATTERN =
  '^(?:file:///[^\\u0000]*|(?=[^\\u0000]{1,4096}$)(?:[^/\\u0000]{0,255}/)*[^/\\u0000]{0,255})$';

/** Path of a file, as it is written in requests and responses. */
export const FilePath = Text({
  minLength: 1,
  maxLength: LIMITS.filePathLength,
  ...documented({ pattern: FILE_PATH_PATTERN }),
  description:
    'Path in the sandbox: absolute, or relative to `/workspace`. It has at most 4096 bytes, and each name in it at most 255. ' +
    'A `file:///` URI can spell any byte with percent escapes; responses use one for a path that is not valid UTF-8.',
});

/** The user that a file operation runs as. */
export const FILE_USERS = [...COMMAND_USERS, 'root:user'] as const;
export type FileUser = CommandUser | 'root:user';
export const FileUser = Type.Optional({
  ...oneOf(
    FILE_USERS,
    'User that performs the operation. Code runs as `user`; `root` is root only inside the sandbox; with `root:user`, what ' +
      'root creates or replaces belongs to `user`. If the user lacks the permission, the error is `permission_denied`.',
  ),
  default: 'user',
});

export const FILE_TYPES = ['file', 'directory', 'symlink', 'other'] as const;
export type FileType = (typeof FILE_TYPES)[number];

export const FileEntry = Type.Object(
  {
    path: FilePath,
    name: Type.String({ description: 'Last part of the path. Bytes that are not UTF-8 are replaced.' }),
    type: oneOf(FILE_TYPES, '`symlink`: a symbolic link. `other`: a pipe, a socket or a device.'),
    sizeBytes: Type.Integer({ minimum: 0, description: 'Size of the content.' }),
    mode: Type.String({ description: 'Permissions in octal, such as `0644`.' }),
    uid: Type.Integer({ minimum: 0, description: 'Id of the owner inside the sandbox.' }),
    gid: Type.Integer({ minimum: 0, description: 'Id of the group inside the sandbox.' }),
    modifiedAt: timestamp('When the content was changed.'),
    etag: Type.Optional(Type.String({ description: 'ETag of the content. Only files have one.' })),
    target: Type.Optional(Type.String({ description: 'Target of a symbolic link, as stored in the link.' })),
    resolved: Type.Optional(
      Type.Object(
        { path: Type.String({ description: 'Absolute path without links.' }), type: oneOf(FILE_TYPES) },
        { description: 'What a symbolic link leads to, if there is something. Only with `details`.' },
      ),
    ),
    attributes: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        description: 'Extended attributes of the namespace `user.`, without this prefix. Only with `details`.',
      }),
    ),
    unlisted: Type.Optional(
      Type.Literal(true, {
        description:
          'In a listing of several levels: the entries of this directory are left out, because the user may not read them, ' +
          'no process can, or the directory vanished meanwhile.',
      }),
    ),
  },
  { $id: 'FileEntry' },
);
export type FileEntry = Static<typeof FileEntry>;

/** Body of the move and copy operations. */
export const TransferFileBody = Type.Object(
  {
    from: FilePath,
    to: FilePath,
    overwrite: Type.Optional(
      Type.Boolean({ default: false, description: 'Replace the file or the whole directory at `to`.' }),
    ),
    user: FileUser,
  },
  { additionalProperties: false, examples: [{ from: 'draft.txt', to: 'final.txt' }] },
);
export type TransferFileBody = Static<typeof TransferFileBody>;

export const ARCHIVE_FORMATS = ['tar', 'tar.gz', 'zip'] as const;
export type ArchiveFormat = (typeof ARCHIVE_FORMATS)[number];

const change = <const Name extends string, More extends TProperties>(type: Name, description: string, more: More) =>
  Type.Object({ type: Type.Literal(type), data: Type.Object({ path: FilePath, ...more }) }, { description });
/** Present path of a file that was deleted at its earlier one. */
const MOVED = Type.Optional(
  Type.Unsafe<string>({ ...FilePath, description: 'Where the file is now, if it was moved within the directory.' }),
);
const ATTRIBUTES_ONLY = Type.Optional(
  Type.Boolean({ description: 'True if only permissions, the owner or attributes have changed, and not the content.' }),
);
const notice = <const Name extends string>(type: Name, description: string) =>
  Type.Object({ type: Type.Literal(type), data: Type.Object({}) }, { description });

/** Events of a watch. A move is reported as a deletion and a creation. */
export const FileEvent = Type.Union(
  [
    change('created', 'A file or directory was created.', {}),
    change('modified', 'The content or the permissions of a file or directory changed.', {
      attributesOnly: ATTRIBUTES_ONLY,
    }),
    change('deleted', 'A file or directory was deleted.', { movedTo: MOVED }),
    notice('overflow', 'There were too many changes to report: list the directory again.'),
    notice('complete', 'The directory itself was deleted. This is the last event.'),
  ],
  { $id: 'FileEvent' },
);
export type FileEvent = Static<typeof FileEvent>;
