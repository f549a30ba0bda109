import { DatabaseSync } from 'node:sqlite';
import { Client } from 'pg';

type Row = Record<string, unknown>;

/** The rows of a server's database, as another process sees them. */
export class StoredRows {
  readonly #url: string;

  constructor(databaseUrl: string) {
    this.#url = databaseUrl;
  }

  /** Executes SQL that both databases have, without parameters. */
  async execute(sql: string): Promise<Row[]> {
    return (await this.#executeAll([sql]))[0] ?? [];
  }

  /** Returns the rows of each table in a fixed order. */
  async read(tables: readonly string[]): Promise<Row[][]> {
    const all = await this.#executeAll(tables.map((table) => `select * from ${table}`));
    return all.map((rows) => rows.sort((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1)));
  }

  /** Returns the tables of PostgreSQL in which a text is stored. Those of SQLite are in its file. */
  async tablesWith(text: string): Promise<string[]> {
    if (this.#url.startsWith('sqlite:')) return [];
    const found = await this.execute('select tablename from pg_tables where schemaname = current_schema()');
    const tables = found.map(({ tablename }) => String(tablename));
    const contents = await this.read(tables);
    const has = (row: Row) => Object.values(row).some((value) => String(value).includes(text));
    return tables.filter((_, index) => contents[index]?.some(has));
  }

  async #executeAll(statements: readonly string[]): Promise<Row[][]> {
    if (this.#url.startsWith('sqlite:')) {
      using database = new DatabaseSync(this.#url.slice('sqlite:'.length));
      return statements.map((sql) => database.prepare(sql).all());
    }
    const client = new Client({ connectionString: this.#url });
    await client.connect();
    try {
      const all: Row[][] = [];
      for (const sql of statements) all.push((await client.query<Row>(sql)).rows);
      return all;
    } finally {
      await client.end();
    }
  }
}
