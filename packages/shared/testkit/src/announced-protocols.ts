/**
 * Loaded before the program of a process, makes it one of another release: it announces the versions of protocols that
 * the JSON file named by `ANNOUNCED_PROTOCOLS` has, by the name of their constant in `protocol/src/version.ts`. A
 * server also has a further migration, which adds a column, if the file names one as `MIGRATION`.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

/** Name of the variable with the path of the file. */
const FILE = 'ANNOUNCED_PROTOCOLS';

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    if (url.endsWith('/protocol/src/version.ts')) return { ...loaded, source: announced(String(loaded.source)) };
    if (url.endsWith('/server/src/platform/db/migrate.ts'))
      return { ...loaded, source: migrated(String(loaded.source)) };
    return loaded;
  },
});

function announced(source: string): string {
  const { MIGRATION, ...versions } = readRelease();
  return Object.entries(versions).reduce((text, [name, version]) => {
    const changed = text.replace(new RegExp(`^(export const ${name} =) \\d+;`, 'm'), `$1 ${version};`);
    assert.ok(changed.includes(`${name} = ${version};`), `${name} is a version`);
    return changed;
  }, source);
}

function migrated(source: string): string {
  const { MIGRATION } = readRelease();
  if (MIGRATION === undefined) return source;
  const migration = `'${MIGRATION}': { up: (db) => db.schema.alterTable('sandboxes').addColumn('of_next_release', 'text').execute() },`;
  const changed = source.replace(/^export const MIGRATIONS\b.*\{$/m, `$&\n${migration}`);
  assert.ok(changed.includes(migration), 'the list of migrations has another one');
  return changed;
}

function readRelease(): Record<string, string | number> {
  const file = process.env[FILE];
  assert.ok(file, `${FILE} names a file`);
  return JSON.parse(readFileSync(file, 'utf8'));
}
