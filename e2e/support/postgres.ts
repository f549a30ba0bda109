import { createHash } from 'node:crypto';
import { chmodSync } from 'node:fs';
import {
  createEmptyDatabase,
  openSuperuser,
  startPostgres,
} from '../../packages/service/server/testing/postgres/postgres-server.ts';

export interface TestPostgres {
  /** Folder of the server's socket, which every user may enter. */
  readonly sockets: string;
  /** Returns the URL of a new database without tables. */
  createDatabase(name: string): Promise<string>;
  /** Connects to a database as the superuser. */
  connect(name: string): ReturnType<typeof openSuperuser>;
  close(): Promise<void>;
}

/** Returns the URL of the database for a data folder, and creates it if it is missing. */
export async function databaseFor(dataDir: string, sockets: string): Promise<string> {
  const name = createHash('sha256').update(dataDir).digest('hex').slice(0, 16);
  return createEmptyDatabase(sockets, `e2e_${name}`);
}

/** Starts a PostgreSQL server that the user of Cloche's servers can connect to. */
export async function testPostgres(): Promise<TestPostgres> {
  const server = await startPostgres();
  const { sockets } = server;
  chmodSync(sockets, 0o711);
  return {
    sockets,
    createDatabase: (name) => createEmptyDatabase(sockets, name),
    connect: (name) => openSuperuser(sockets, name),
    close: () => server.close(),
  };
}
