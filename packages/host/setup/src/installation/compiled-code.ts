/**
 * The compiled code of the parts, made before they start: loading hundreds of modules of TypeScript is most of the
 * processor time of a start.
 *
 * SECURITY: Node runs what this cache has without a further look, so only root writes it, and each part reads its own.
 * No part runs while it is made: the modules are compiled, and none of them is run.
 */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { cachePaths } from '@cloche/layout';
import { withLock } from '../build-lock.ts';
import type { ServiceAccounts } from '../host/service-account.ts';
import { settleAll } from '../settle-all.ts';
import { CHECKOUT, codeAt, codeFolderOf, PART_NAMES, type PartName, PROGRAMS } from './parts.ts';

const run = promisify(execFile);

/** Modules that a server with the default settings imports after its start has begun. */
const LATER: Readonly<Partial<Record<PartName, readonly string[]>>> = {
  server: ['@cloche/e2b', '@cloche/jupyter', '@cloche/mcp'],
};

/** Ends a process that imports it before another module runs, and after all have been compiled. */
const STOP = 'data:text/javascript,process.exit(0)';
/** Name of the file with what a folder was made from. */
const STAMP = 'made-from.json';

/**
 * Returns the folder with a cache for each part (`<folder>/<part>` is its NODE_COMPILE_CACHE), after it was made where
 * the checkout or Node has changed. Returns undefined where it cannot be made, for example on a full disk: parts start
 * without it, only slower. Idempotent; safe to interrupt.
 *
 * @param codeDir where the unprivileged parts find the checkout
 */
export async function ensureCompiledCode(
  cacheDir: string,
  codeDir: string,
  accounts: ServiceAccounts,
): Promise<string | undefined> {
  const parent = cachePaths(cacheDir).compiledDir;
  const folder = join(parent, digestOf(`${CHECKOUT}\0${codeDir}`));
  const madeFrom = JSON.stringify({ checkout: CHECKOUT, sources: digestOf(sources()), node: process.version });
  const isCurrent = () => existsSync(join(folder, STAMP)) && readFileSync(join(folder, STAMP), 'utf8') === madeFrom;
  if (isCurrent()) return folder;
  try {
    return await withLock(join(cacheDir, 'building', 'compiled.lock'), async () => {
      if (isCurrent()) return folder;
      await removeUnneeded(parent);
      const building = await mkdtemp(join(parent, '.building-'));
      // Modules that have not changed are not compiled again.
      if (existsSync(folder)) await cp(folder, building, { recursive: true, preserveTimestamps: true });
      await settleAll(PART_NAMES.map((part) => compile(part, join(building, part), codeDir, accounts)));
      await writeFile(join(building, STAMP), madeFrom);
      await run('chmod', ['--recursive', 'u=rwX,go=rX', building]);
      await rm(folder, { recursive: true, force: true });
      await rename(building, folder);
      return folder;
    });
  } catch {
    return undefined;
  }
}

/** Compiles all modules that a part imports, into a folder that Node finds under the part's user. */
async function compile(part: PartName, folder: string, codeDir: string, accounts: ServiceAccounts): Promise<void> {
  const uid = part === 'hostd' ? 0 : accounts[part].uid;
  const codeFolder = codeFolderOf(part, codeDir);
  await mkdir(folder, { recursive: true });
  await renameEnding(folder, `-${uid}`, '-0');
  const program = pathToFileURL(join(codeFolder, PROGRAMS[part])).href;
  const imported = [STOP, program, ...(LATER[part] ?? [])];
  const script = imported.map((module) => `import ${JSON.stringify(module)};`).join(' ');
  const [file = '', ...args] = codeAt(codeFolder, [process.execPath, '--input-type=module', '--eval', script]);
  await run(file, args, { cwd: CHECKOUT, env: { PATH: process.env.PATH, NODE_COMPILE_CACHE: folder } });
  await renameEnding(folder, '-0', `-${uid}`);
}

/** Renames what Node has named after its version and a user (`v26.10.0-x64-310b2ce3-0`). */
async function renameEnding(folder: string, from: string, to: string): Promise<void> {
  for (const name of await readdir(folder)) {
    // Of another Node.
    if (!name.startsWith(`${process.version}-`)) await rm(join(folder, name), { recursive: true });
    else if (name.endsWith(from)) await rename(join(folder, name), join(folder, name.slice(0, -from.length) + to));
  }
}

/** Removes what an interrupted run has left, and the code of checkouts that are gone. */
async function removeUnneeded(parent: string): Promise<void> {
  await mkdir(parent, { recursive: true });
  for (const name of await readdir(parent)) {
    const stamp = join(parent, name, STAMP);
    const checkout = existsSync(stamp) ? JSON.parse(readFileSync(stamp, 'utf8')).checkout : undefined;
    if (checkout === undefined || !existsSync(checkout)) await rm(join(parent, name), { recursive: true });
  }
}

/** Describes all sources. Contents are told by size and time, because reading them takes longer than all the rest. */
function sources(): string {
  const files = globSync(['package-lock.json', 'packages/*/*/src/**/*.ts', 'packages/*/*/build/*.js'], {
    cwd: CHECKOUT,
  });
  return files
    .filter((file) => !file.endsWith('.test.ts'))
    .map((file) => {
      const { size, mtimeMs } = statSync(join(CHECKOUT, file));
      return `${file} ${size} ${mtimeMs}`;
    })
    .join('\n');
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
