import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { unitTests } from './unit-tests.ts';

/** Folder of the support modules. */
const TESTING = 'packages/service/server/testing/';
/** Opens the database of tests. */
const OPENS_DATABASE = 'openTestDatabase';
/** An import of a support module of the server's tests. */
const SUPPORT = /from '(\.[^']*\/testing\/[^']+\.ts|\.\/[^']+\.ts)'/g;

/** Files that run with SQLite only, each with the reason. */
const SQLITE_ONLY: Readonly<Record<string, string>> = {
  'compose/tenancy': 'tests which requests are refused, before their records',
  'features/files/files': 'tests requests to the agent',
  ...Object.fromEntries(
    [
      ...['app', 'authorize', 'breaking-off', 'bytes', 'deprecation', 'json-requests', 'large-answers', 'methods'],
      ...['outcome-log', 'raw-errors', 'request-validator', 'schema-bounds', 'service-routes', 'streams'],
      ...['string-fields', 'wrong-key-delay'],
    ].map((name) => [`platform/http/${name}`, 'tests requests and their answers, whose records other files test']),
  ),
  'features/metrics/measure-sandboxes': 'tests requests to the agent',
  'features/previews/private-previews': 'tests tokens and cookies; previews/previews tests the records',
  'features/runs/stream-code': 'tests streams; runs/run-code tests the records',
  'compose/hot-runs': 'counts statements of SQLite',
  'features/contexts/context-repository': 'reads plans of SQLite',
  'platform/db/lookups': 'values are cached with SQLite alone',
  'features/previews/hostile-apps': 'tests what an app sends; previews/previews tests the records',
  'features/previews/preview-connections': 'tests connections; previews/previews tests the records',
  'features/previews/preview-pages': 'tests pages; previews/previews tests the records',
  'features/previews/preview-proxy': 'tests the proxy; previews/previews tests the records',
  'features/webhooks/receiver-names': 'tests how names are resolved',
  'features/webhooks/webhook-sender': 'tests requests to receivers; webhooks/deliveries tests the records',
};

/** Returns the unit tests of repositories and services, which run with PostgreSQL too. */
export function postgresTests(): string[] {
  const left = new Set(Object.keys(SQLITE_ONLY).map((name) => `packages/service/server/src/${name}.test.ts`));
  return unitTests().filter((file) => !left.has(file) && usesDatabase(file));
}

/** Returns whether a test file opens the database of tests, itself or by way of the support modules that it imports. */
function usesDatabase(file: string): boolean {
  const text = readFileSync(file, 'utf8');
  if (text.includes(OPENS_DATABASE)) return true;
  const imported = [...text.matchAll(SUPPORT)].map(([, path = '']) => join(dirname(file), path));
  return imported.filter((path) => path.startsWith(TESTING)).some(usesDatabase);
}

/** Installs the server of the tests if it is missing. Returns the reason why that is impossible, if there is one. */
export async function installPostgres(): Promise<string | undefined> {
  // Loaded here, so that a run without this stage does not load it.
  const installer = await import('../packages/service/server/testing/postgres/install-postgres.ts');
  return installer.installPostgres().then(
    () => undefined,
    (error: Error) => `PostgreSQL cannot be installed: ${error.message}`,
  );
}
