/**
 * `cloche migrate` and `cloche admin copy-database` ↔ the server's program for databases, which runs beside the server.
 * It reads one `DatabaseTask` as JSON from its standard input, and writes `DatabaseMessage`s, one line of JSON each, to
 * its standard output: any number with `progress`, then one with `done` or `failed`.
 */
import { type Static, Type } from 'typebox';

export const DatabaseTask = Type.Union([
  Type.Object({ task: Type.Literal('migrate'), databaseUrl: Type.String(), serverDir: Type.String() }),
  Type.Object({
    task: Type.Literal('copy'),
    from: Type.String(),
    to: Type.String(),
    serverDir: Type.String(),
  }),
]);
export type DatabaseTask = Static<typeof DatabaseTask>;

export const MigrationReport = Type.Object({
  database: Type.Union([Type.Literal('sqlite'), Type.Literal('postgresql')]),
  /** Newest migration of this version. */
  schema: Type.String(),
  applied: Type.Array(Type.String()),
  waiting: Type.Array(Type.String()),
  newer: Type.Array(Type.String()),
});
export type MigrationReport = Static<typeof MigrationReport>;

export const CopyReport = Type.Object({
  /** False if an earlier call had copied all rows. */
  copied: Type.Boolean(),
  rows: Type.Integer(),
  /**
   * The digest of a table is the sum of the SHA-256 hashes of its rows, in hexadecimal; it was equal in both databases.
   */
  tables: Type.Array(Type.Object({ name: Type.String(), rows: Type.Integer(), digest: Type.String() })),
});
export type CopyReport = Static<typeof CopyReport>;

export const CopyProgress = Type.Object({
  step: Type.Union([Type.Literal('copy'), Type.Literal('verify')]),
  table: Type.String(),
  rows: Type.Integer(),
  /** Rows of all tables. */
  total: Type.Integer(),
});
export type CopyProgress = Static<typeof CopyProgress>;

export const DatabaseMessage = Type.Union([
  Type.Object({ progress: CopyProgress }),
  Type.Object({ done: Type.Unknown() }),
  Type.Object({ failed: Type.String() }),
]);
export type DatabaseMessage = Static<typeof DatabaseMessage>;
