/**
 * Loaded before the program of a process, lets it announce other versions of protocols: those that the JSON file named
 * by `ANNOUNCED_PROTOCOLS` has, by the name of their constant in `protocol/src/version.ts`.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';

/** Name of the variable with the path of the file. */
const FILE = 'ANNOUNCED_PROTOCOLS';

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    return url.endsWith('/protocol/src/version.ts') ? { ...loaded, source: announced(String(loaded.source)) } : loaded;
  },
});

function announced(source: string): string {
  const file = process.env[FILE];
  assert.ok(file, `${FILE} names a file`);
  const versions: Record<string, number> = JSON.parse(readFileSync(file, 'utf8'));
  return Object.entries(versions).reduce((text, [name, version]) => {
    const changed = text.replace(new RegExp(`^(export const ${name} =) \\d+;`, 'm'), `$1 ${version};`);
    assert.ok(changed.includes(`${name} = ${version};`), `${name} is a version`);
    return changed;
  }, source);
}
