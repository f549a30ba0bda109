/**
 * `cloche migrate` and `cloche admin copy-database` ↔ the server's program for databases, which runs beside the server.
 * It reads one `DatabaseTask` as JSON from its standard input, and writes `DatabaseMessage`s, one line of JSON each, to
 * its standard output: any number with `progress`, then one with `done` or `failed`.
 */
import { type Static, Type } from 'typebox';
import { Count, Path, Sentence, Word } from './bounded.ts';

const Url = Type.String({ maxLength: 8_192 });
const Migrations = Type.Array(Word, { maxItems: 10_000 });

export const DatabaseTask = Type.Union([
  Type.Object({ task: Type.Literal('migrate'), databaseUrl: Url, serverDir: Path }),
  Type.Object({
    task: Type.Literal('copy'),
    from: Url,
    to: Url,
    serverDir: Path,
  }),
]);
export type DatabaseTask = Static<typeof DatabaseTask>;

export const MigrationReport = Type.Object({
  database: Type.Union([Type.Literal('sqlite'), Type.Literal('postgresql')]),
  /** Newest migration of this version. */
  schema: Word,
  applied: Migrations,
  waiting: Migrations,
  newer: Migrations,
});
export type MigrationReport = Static<typeof MigrationReport>;

export const CopyReport = Type.Object({
  /** False if an earlier call had copied all rows. */
  copied: Type.Boolean(),
  rows: Count,
  /**
   * The digest of a table is the sum of the SHA-256 hashes of its rows, in hexadecimal; it was equal in both databases.
   */
  tables: Type.Array(Type.Object({ name: Word, rows: Count, digest: Word }), { maxItems: 1_000 }),
});
export type CopyReport = Static<typeof CopyReport>;

export const CopyProgress = Type.Object({
  step: Type.Union([Type.Literal('copy'), Type.Literal('verify')]),
  table: Word,
  rows: Count,
  /** Rows of all tables. */
  total: Count,
});
export type CopyProgress = Static<typeof CopyProgress>;

export const DatabaseMessage = Type.Union([
  Type.Object({ progress: CopyProgress }),
  Type.Object({ done: Type.Unknown() }),
  Type.Object({ failed: Sentence }),
]);
export type DatabaseMessage = Static<typeof DatabaseMessage>;
