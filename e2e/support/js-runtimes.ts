/** Other runtimes of JavaScript that programs of users run on. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

const VERSIONS = { bun: '1.4.5', deno: '2.9.6' };
const CACHE = join(process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche', 'js-runtimes');

/**
 * Returns the folder of the programs `bun` and `deno`, which npm installs once for each version into the cache. Returns
 * why not if npm cannot: the registry may not be reachable, or not have them.
 */
export function otherRuntimes(): { readonly bin: string } | { readonly missing: string } {
  const folder = join(CACHE, Object.entries(VERSIONS).flat().join('-'));
  const bin = join(folder, 'node_modules/.bin');
  if (existsSync(folder)) return { bin };
  mkdirSync(CACHE, { recursive: true });
  const building = mkdtempSync(join(CACHE, '.building-'));
  try {
    // The scripts of these packages move the program for this platform to its place.
    const manifest = { dependencies: VERSIONS, allowScripts: { bun: true, deno: true } };
    writeFileSync(join(building, 'package.json'), JSON.stringify(manifest));
    const args = ['install', '--no-audit', '--no-fund', '--fetch-retries=1', '--fetch-timeout=60000'];
    execFileSync('npm', args, { cwd: building, stdio: 'pipe', env: cleanEnvironment() });
    // Another process may have installed the same in the meantime.
    if (!existsSync(folder)) renameSync(building, folder);
    return { bin };
  } catch (error) {
    return {
      missing: `npm cannot install bun and deno: ${String((error as { stderr?: unknown }).stderr).slice(0, 500)}`,
    };
  } finally {
    rmSync(building, { recursive: true, force: true });
  }
}

/** Returns the Node that the machine has itself, beside the one of this repository. */
export function machineNode(): string {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  const found = folders.map((folder) => join(folder, 'node')).find((path) => existsSync(path));
  if (found === undefined) throw new Error('There is no node in PATH besides the one of this repository.');
  return found;
}

/** Names of variables that a surrounding npm, test runner or service has set for its own work. */
const OF_OTHERS =
  /^(npm_(config_local_prefix|config_prefix|command|execpath|lifecycle|node|package)|NODE_(COMPILE_CACHE|OPTIONS|PATH|TEST|V8)|CLOCHE_)/i;

/** Returns the environment as a stranger's shell has it. */
export function cleanEnvironment(): Record<string, string> {
  const kept = Object.entries(process.env).filter(([name]) => !OF_OTHERS.test(name));
  return Object.fromEntries(kept.map(([name, value]) => [name, value ?? '']));
}
