/**
 * Server ↔ agent: the sandbox's files.
 *
 * | method and path | body → answer |
 * |---|---|
 * | `GET`, `HEAD /files/content?path` | → the bytes, with `content-length`, `etag` and, for 206, `content-range`; supports `range`, `if-range`, `if-match`, `if-none-match` |
 * | `PUT /files/content?path&mode` | the bytes → `AgentFile`; supports `if-match`, `if-none-match: *`, `file-attributes` and `expect: 100-continue` |
 * | `GET /files?path&depth&limit&details&marksUnlisted` | → `AgentFile`, one JSON text per line; `too_many` beyond the limit |
 * | `GET /files/stat?path&details` | → `AgentFile` |
 * | `POST /files/directories?path` | → `AgentFile` |
 * | `POST /files/move?from&to&overwrite`, `POST /files/copy?from&to&overwrite` | → `AgentFile` of `to` |
 * | `GET /files/archive?path&format` | → the bytes of a `tar`, `tar.gz` or `zip` |
 * | `PUT /files/archive?path&runId&attempt` | the bytes of a tar (plain, gzip, zstd) or a zip → `AgentUnpacked`; `runId` and `attempt` as in `ArchiveAttempt` |
 * | `GET /files/watch?path&recursive` | → a stream of `AgentFileEvent`, one JSON text per line, `ended` last |
 * | `DELETE /files?path&recursive` | → `AgentFile` of the deleted file |
 *
 * Every request accepts `user` in its query: `user` (the default) or `root`. The operation runs with that user's rights.
 * With `owner=user`, what root creates or replaces belongs to the user.
 *
 * A path is absolute, relative to the workspace, or a `file:///` URI, whose percent escapes can express any byte. Closing
 * the connection of an upload undoes the upload.
 */
import { type Static, Type } from 'typebox';
import { Count, mapOf, Path } from '../bounded.ts';

/** User whose rights a file operation has. `root:user`: those of root, and what it creates belongs to the user. */
export type FileUser = 'user' | 'root' | 'root:user';

/** A name of at most 255 bytes, each as a percent escape. */
const FileName = Type.String({ maxLength: 3 * 255 });

/** Longest line of a listing: path, name, targets and attributes, with each byte escaped. */
export const MAX_AGENT_FILE_BYTES = 256 * 1024;

const FileType = Type.Union(['file', 'directory', 'symlink', 'other'].map((type) => Type.Literal(type)));

export const AgentFile = Type.Object(
  {
    /** Absolute path, or a file URI when its bytes are not valid UTF-8. */
    path: Path,
    name: FileName,
    type: FileType,
    sizeBytes: Count,
    /** The permission bits. */
    mode: Type.Integer({ minimum: 0, maximum: 0o7777 }),
    uid: Count,
    gid: Count,
    modifiedMs: Type.Integer({ minimum: -8.64e15, maximum: 8.64e15 }),
    /** Entity tag of a file; changes with its content. */
    etag: Type.Optional(Type.String({ pattern: '^"[0-9a-f-]{1,100}"$' })),
    /** Target of a symbolic link. */
    target: Type.Optional(Path),
    /** With `details`: what a symbolic link leads to, if there is something, with all links in the path followed. */
    resolved: Type.Optional(Type.Object({ path: Path, type: FileType }, { additionalProperties: false })),
    /** With `details`: the extended attributes of the namespace `user.`, without this prefix. */
    attributes: Type.Optional(mapOf(Type.String({ maxLength: MAX_AGENT_FILE_BYTES }), 64, 255)),
    /** Set for a directory of a listing whose entries could not be listed, if the request has `marksUnlisted=true`. */
    unlisted: Type.Optional(Type.Literal(true)),
  },
  { additionalProperties: false },
);
type AgentFileType = 'file' | 'directory' | 'symlink' | 'other';
export type AgentFile = Omit<Static<typeof AgentFile>, 'type' | 'resolved'> & {
  type: AgentFileType;
  resolved?: { path: string; type: AgentFileType };
};

export const AgentUnpacked = Type.Object(
  {
    /** The directory that the archive was unpacked into. */
    file: AgentFile,
    entries: Count,
    sizeBytes: Count,
  },
  { additionalProperties: false },
);
export type AgentUnpacked = Omit<Static<typeof AgentUnpacked>, 'file'> & { file: AgentFile };

/**
 * Which attempt to unpack the archive of a workspace run a request is. The database counts the attempts of a run. A
 * request ends the earlier attempts that are under way and waits until they have ended; it is refused with `conflict` if
 * the agent knows a later attempt. Absent in other requests.
 */
export interface ArchiveAttempt {
  readonly runId: string;
  /** From 1. */
  readonly attempt: number;
}

/**
 * A change of a file. `movedTo`, of a deletion: the path of the file now, if it was moved within what is watched.
 * `attributesOnly`, of a modification: only permissions, the owner or attributes have changed. `overflow`: some changes were missed. `ended`: the watched file or directory is gone.
 */
export const AgentFileEvent = Type.Union([
  Type.Object(
    {
      type: Type.Union([Type.Literal('created'), Type.Literal('modified'), Type.Literal('deleted')]),
      path: Path,
      movedTo: Type.Optional(Path),
      attributesOnly: Type.Optional(Type.Boolean()),
    },
    { additionalProperties: false },
  ),
  Type.Object({ type: Type.Union([Type.Literal('overflow'), Type.Literal('ended')]) }, { additionalProperties: false }),
]);
export type AgentFileEvent = Static<typeof AgentFileEvent>;

/**
 * Error codes of file operations, with their HTTP status.
 *
 * `permission_denied` 403: the user has no permission for `path`; `not_found` 404; `conflict` 409: for example, a
 * folder or device where a file is needed; `precondition_failed` 412; `range_not_satisfiable` 416, with
 * `content-range`; `disk_full` 507; `invalid_path` 400; `too_many` 400: the listing exceeds its limit; `bad_archive`
 * 400: the archive is broken or has an entry outside its folder.
 */
export const AGENT_FILE_ERROR_CODES = [
  'permission_denied',
  'not_found',
  'conflict',
  'precondition_failed',
  'range_not_satisfiable',
  'disk_full',
  'invalid_path',
  'too_many',
  'bad_archive',
] as const;
export type AgentFileErrorCode = (typeof AGENT_FILE_ERROR_CODES)[number];
