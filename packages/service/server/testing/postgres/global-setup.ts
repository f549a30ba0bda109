/**
 * Global setup (`--test-global-setup`) with which test files use PostgreSQL instead of SQLite: starts one server for
 * all of them.
 */
import { type PostgresServer, SOCKETS, startPostgres } from './postgres-server.ts';

let server: PostgresServer | undefined;

export async function globalSetup(): Promise<void> {
  server = await startPostgres();
  process.env[SOCKETS] = server.sockets;
}

export async function globalTeardown(): Promise<void> {
  await server?.close();
}
