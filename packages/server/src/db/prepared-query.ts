import type { Compilable, CompiledQuery } from 'kysely';
import type { Database } from './database.ts';
import type { NodeSqliteDatabase, NodeSqliteStatement } from './node-sqlite.ts';
import { writtenTables } from './written-tables.ts';

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

type Values<Parameters> = Record<keyof Parameters, string | number | null>;

interface Result<Row> {
  rows: Row[];
  changed: bigint;
}

/**
 * A query that Kysely builds and compiles once, for the paths where doing so on every request would cost more than the
 * query itself. `build` gets a placeholder for each parameter by its name.
 */
export function prepareQuery<Parameters extends Values<Parameters>, Row>(
  db: Database,
  build: (slots: Parameters) => Compilable<Row>,
): (parameters: Parameters) => Promise<Result<Row>> {
  const { compiled, bind } = compile(build);
  const execute = directly<Row>(db, compiled);
  return async (parameters) => {
    const bound = bind(parameters);
    const done = execute(bound);
    if (done) return done;
    const query: CompiledQuery<Row> = { ...compiled, parameters: bound };
    const { rows, numAffectedRows } = await db.executeQuery(query);
    return { rows, changed: numAffectedRows ?? 0n };
  };
}

/** The same for one that is done when the call returns; undefined where it cannot be, as during a transaction. */
export function prepareNow<Parameters extends Values<Parameters>, Row>(
  db: Database,
  build: (slots: Parameters) => Compilable<Row>,
): (parameters: Parameters) => Result<Row> | undefined {
  const { compiled, bind } = compile(build);
  const execute = directly<Row>(db, compiled);
  return (parameters) => execute(bind(parameters));
}

function compile<Parameters extends Values<Parameters>, Row>(build: (slots: Parameters) => Compilable<Row>) {
  // The builder only carries each value into the list of parameters, where its slot is found again.
  const slots = new Proxy({} as Parameters, { get: (_, name) => new Slot(String(name)) });
  const compiled = build(slots).compile();
  const bind = (parameters: Parameters): unknown[] => {
    const values = parameters as Record<string, string | number | null>;
    return compiled.parameters.map((value) => (value instanceof Slot ? values[value.name] : value));
  };
  return { compiled, bind };
}

/** A transaction under way is somebody else's: Kysely lets a query wait for its end. */
function directly<Row>(
  db: Database,
  { sql, query }: CompiledQuery<Row>,
): (bound: unknown[]) => Result<Row> | undefined {
  const database = embedded.get(db);
  let statement: NodeSqliteStatement | undefined;
  return (bound) => {
    if (!database || database.isInTransaction) return undefined;
    statement ??= database.prepare(sql, () => writtenTables(query));
    return executeNow<Row>(statement, bound);
  };
}

function executeNow<Row>(statement: NodeSqliteStatement, bound: readonly unknown[]): Result<Row> {
  // Sound: Kysely would pass on the same rows.
  if (statement.reader) return { rows: statement.all(bound) as Row[], changed: 0n };
  return { rows: [], changed: BigInt(statement.run(bound).changes) };
}
