import type { Compilable, CompiledQuery } from 'kysely';
import type { Database } from './database.ts';
import type { NodeSqliteDatabase, NodeSqliteStatement } from './node-sqlite.ts';

class Slot {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

const embedded = new WeakMap<Database, NodeSqliteDatabase>();

/** From now on prepared queries of `db` go straight to the database below it, where they may. */
export function executeDirectly(db: Database, database: NodeSqliteDatabase): void {
  embedded.set(db, database);
}

/** Undefined for a database of another kind. */
export function embeddedDatabase(db: Database): NodeSqliteDatabase | undefined {
  return embedded.get(db);
}

/**
 * A query that Kysely builds and compiles once, for the paths where doing so on every request would cost more than the
 * query itself. `build` gets a placeholder for each parameter by its name.
 */
export function prepareQuery<Parameters extends Record<keyof Parameters, string | number | null>, Row>(
  db: Database,
  build: (slots: Parameters) => Compilable<Row>,
): (parameters: Parameters) => Promise<{ rows: Row[]; changed: bigint }> {
  // The builder only carries each value into the list of parameters, where its slot is found again.
  const slots = new Proxy({} as Parameters, { get: (_, name) => new Slot(String(name)) });
  const compiled = build(slots).compile();
  const database = embedded.get(db);
  let statement: NodeSqliteStatement | undefined;
  return async (parameters) => {
    const values = parameters as Record<string, string | number | null>;
    const bound = compiled.parameters.map((value) => (value instanceof Slot ? values[value.name] : value));
    // A transaction under way is somebody else's: Kysely lets this one wait for its end.
    if (database && !database.isInTransaction) {
      statement ??= database.prepare(compiled.sql);
      return executeNow<Row>(statement, bound);
    }
    const query: CompiledQuery<Row> = { ...compiled, parameters: bound };
    const { rows, numAffectedRows } = await db.executeQuery(query);
    return { rows, changed: numAffectedRows ?? 0n };
  };
}

function executeNow<Row>(statement: NodeSqliteStatement, bound: readonly unknown[]): { rows: Row[]; changed: bigint } {
  // Sound: Kysely would pass on the same rows.
  if (statement.reader) return { rows: statement.all(bound) as Row[], changed: 0n };
  return { rows: [], changed: BigInt(statement.run(bound).changes) };
}
