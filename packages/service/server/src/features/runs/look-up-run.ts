import type { Language, SandboxId } from '@cloche/contract';
import { type Expression, type ExpressionBuilder, type Selectable, type SqlBool, sql } from 'kysely';
import type { Database, Tables } from '../../platform/db/database.ts';
import { prepareQuery } from '../../platform/db/prepared-query.ts';
import type { CodeContextTable, SandboxTable } from '../../platform/db/tables/sandbox-tables.ts';
import type { Credential } from '../../platform/keys/credential.ts';
import type { ContextRecord } from '../contexts/context.ts';
import { toContextRecord } from '../contexts/context-repository.ts';
import { requireAccess, requireLive } from '../sandbox-records/sandbox-access.ts';
import { toRecord } from '../sandbox-records/sandbox-row.ts';
import type { LookedUpRun, RunRequest } from './resolve-run.ts';

const CONTEXT_COLUMNS = [
  'id',
  'sandbox_id',
  'generation',
  'language',
  'cwd',
  'is_default',
  'timeout_ms',
  'created_at',
  'deleted_at',
  'idempotency_record_id',
] as const satisfies (keyof CodeContextTable)[];
type Column = (typeof CONTEXT_COLUMNS)[number];

/** Reads the sandbox and the context of a run in one statement, while the request is claimed. */
export class LookUpRun {
  readonly #withNamed;
  readonly #withDefault;
  readonly #pauseRetentionMs: number;

  constructor(db: Database, pauseRetentionMs: number) {
    this.#pauseRetentionMs = pauseRetentionMs;
    this.#withNamed = prepareQuery(db, ({ sandboxId, id }: { sandboxId: string; id: string }) =>
      withContext(db, sandboxId, (eb) => eb('context.id', '=', id)),
    );
    this.#withDefault = prepareQuery(db, ({ sandboxId, language }: { sandboxId: string; language: Language }) =>
      withContext(db, sandboxId, (eb) =>
        eb.and([
          eb('context.language', '=', language),
          eb('context.is_default', '=', sql.lit(1)),
          eb('context.deleted_at', 'is', null),
        ]),
      ),
    );
  }

  /** Starts reading at once. Decides nothing about the run. */
  lookUp(credential: Credential, { params, body }: Pick<RunRequest, 'params' | 'body'>): LookedUpRun {
    const { sandboxId } = params;
    const found = this.#find(sandboxId, body);
    const recordOf = (row: Selectable<SandboxTable>) => toRecord(row, this.#pauseRetentionMs);
    const sandbox = found.then((row) => requireLive(requireAccess(credential, sandboxId, row && recordOf(row))));
    const context = found.then((row) => row && contextOf(row));
    // A request that is replayed or refused never awaits these promises, so their rejections are handled here.
    for (const read of [sandbox, context]) read.catch(() => undefined);
    return { sandbox, context };
  }

  async #find(sandboxId: SandboxId, { contextId: id, language }: RunRequest['body']) {
    const { rows } = await (id === undefined
      ? this.#withDefault({ sandboxId, language })
      : this.#withNamed({ sandboxId, id }));
    return rows[0];
  }
}

type Joined = ExpressionBuilder<Tables & { context: CodeContextTable }, 'sandboxes' | 'context'>;

function withContext(db: Database, sandboxId: string, isWanted: (eb: Joined) => Expression<SqlBool>) {
  return db
    .selectFrom('sandboxes')
    .leftJoin('code_contexts as context', (join) =>
      join.onRef('context.sandbox_id', '=', 'sandboxes.id').on((eb) => isWanted(eb)),
    )
    .selectAll('sandboxes')
    .select(CONTEXT_COLUMNS.map((column) => `context.${column} as context_${column}` as const))
    .where('sandboxes.id', '=', sandboxId);
}

function contextOf(row: Readonly<Record<`context_${Column}`, string | number | null>>): ContextRecord | undefined {
  if (row.context_id === null) return undefined;
  const columns = CONTEXT_COLUMNS.map((column) => [column, row[`context_${column}`]]);
  // Sound: these are all columns of the table, and a row that has an id has the values of its columns.
  return toContextRecord(Object.fromEntries(columns) as Selectable<CodeContextTable>);
}
