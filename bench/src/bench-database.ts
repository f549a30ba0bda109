import { chmodSync } from 'node:fs';
import { execa } from 'execa';
import {
  createEmptyDatabase,
  type PostgresServer,
  startPostgres,
} from '../../packages/service/server/testing/postgres/postgres-server.ts';

/** Settings of Debian's package, which replace those that speed up tests. */
const AS_INSTALLED = {
  fsync: 'on',
  full_page_writes: 'on',
  wal_level: 'replica',
  max_wal_size: '1GB',
  shared_buffers: '128MB',
  autovacuum: 'on',
  default_transaction_isolation: 'read committed',
};

/** PostgreSQL on a Unix socket, with Debian's settings, thrown away afterwards. */
export class BenchDatabase implements AsyncDisposable {
  readonly sockets: string;
  readonly #server: PostgresServer;

  private constructor(server: PostgresServer) {
    this.#server = server;
    this.sockets = server.sockets;
  }

  static async start(): Promise<BenchDatabase> {
    const server = await startPostgres(AS_INSTALLED);
    // The user of the servers must be able to reach the socket.
    chmodSync(server.sockets, 0o711);
    return new BenchDatabase(server);
  }

  /**
   * Returns the URL of a new database without tables.
   *
   * @param waitsForDisk whether a commit is answered once it is on the disk
   */
  async create(name: string, { waitsForDisk = true } = {}): Promise<string> {
    const url = await createEmptyDatabase(this.sockets, name);
    if (!waitsForDisk) await this.execute(name, `alter database ${name} set synchronous_commit = off`);
    return url;
  }

  /** Runs a statement as the superuser and returns what it prints. */
  async execute(name: string, statement: string): Promise<string> {
    const options = [
      '--host',
      this.sockets,
      '--username',
      'postgres',
      '--dbname',
      name,
      '--tuples-only',
      '--no-psqlrc',
    ];
    return (await execa('psql', [...options, '--command', statement])).stdout;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#server.close();
  }
}
