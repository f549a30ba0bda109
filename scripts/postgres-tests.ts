import { readFileSync } from 'node:fs';
import { unitTests } from './unit-tests.ts';

/** How a test file opens the database of tests, itself or by way of a whole server. */
const USES_DATABASE =
  /openTestDatabase|\/testing\/(audit|audited|keys|previews|sandboxes|tenants|webhooks|whole-servers)\.ts'/;

/** Files that run with SQLite only, each with the reason. */
const SQLITE_ONLY: Readonly<Record<string, string>> = {
  'compose/tenancy': 'tests which requests are refused, before their records',
  'files/files': 'tests requests to the agent',
  'http/methods': 'tests requests',
  'http/schema-bounds': 'tests requests',
  'metrics/measure-sandboxes': 'tests requests to the agent',
  'previews/private-previews': 'tests tokens and cookies; previews/previews tests the records',
  'runs/stream-code': 'tests streams; runs/run-code tests the records',
  'compose/hot-runs': 'counts statements of SQLite',
  'contexts/context-repository': 'reads plans of SQLite',
  'db/lookups': 'values are cached with SQLite alone',
  'previews/hostile-apps': 'tests what an app sends; previews/previews tests the records',
  'previews/preview-connections': 'tests connections; previews/previews tests the records',
  'previews/preview-pages': 'tests pages; previews/previews tests the records',
  'previews/preview-proxy': 'tests the proxy; previews/previews tests the records',
  'webhooks/receiver-names': 'tests how names are resolved',
  'webhooks/webhook-sender': 'tests requests to receivers; webhooks/deliveries tests the records',
};

/** Returns the unit tests of repositories and services, which run with PostgreSQL too. */
export function postgresTests(): string[] {
  const left = new Set(Object.keys(SQLITE_ONLY).map((name) => `packages/server/src/${name}.test.ts`));
  return unitTests().filter((file) => !left.has(file) && USES_DATABASE.test(readFileSync(file, 'utf8')));
}

/** Installs the server of the tests if it is missing. Returns the reason why that is impossible, if there is one. */
export async function installPostgres(): Promise<string | undefined> {
  // Loaded here, so that a run without this stage does not load it.
  const installer = await import('../packages/server/testing/postgres/install-postgres.ts');
  return installer.installPostgres().then(
    () => undefined,
    (error: Error) => `PostgreSQL cannot be installed: ${error.message}`,
  );
}
