import type { Compilable, CompiledQuery } from 'kysely';
import type { Database } from './database.ts';

class Slot {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/**
 * A query that Kysely builds and compiles once, for the paths where doing so on every request would cost more than the
 * query itself. `build` gets a placeholder for each parameter by its name.
 */
export function prepareQuery<Parameters extends Record<keyof Parameters, string | number>, Row>(
  db: Database,
  build: (slots: Parameters) => Compilable<Row>,
): (parameters: Parameters) => Promise<{ rows: Row[]; changed: bigint }> {
  // The builder only carries each value into the list of parameters, where its slot is found again.
  const slots = new Proxy({} as Parameters, { get: (_, name) => new Slot(String(name)) });
  const compiled = build(slots).compile();
  return async (parameters) => {
    const values = parameters as Record<string, string | number>;
    const bound = compiled.parameters.map((value) => (value instanceof Slot ? values[value.name] : value));
    const query: CompiledQuery<Row> = { ...compiled, parameters: bound };
    const { rows, numAffectedRows } = await db.executeQuery(query);
    return { rows, changed: numAffectedRows ?? 0n };
  };
}
