import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Finding } from '@cloche/host-checks';
import {
  checkTools,
  examineBase,
  limitCrashHandlers,
  REQUIRED_TOOLS,
  raiseSysctls,
  remedyFor,
  removeUnused,
  speedUpCgroupMoves,
} from '@cloche/host-checks';
import { cachePaths, clocheCommand, GVISOR_VERSION, guestUse, recordUse, templateUse } from '@cloche/layout';
import { withLock } from '../build-lock.ts';
import { type Progress, SetupError, silentProgress } from '../progress.ts';
import { CommandFailedError } from '../run-logged.ts';
import { settleAll } from '../settle-all.ts';
import { ensureTemplate } from '../templates/build-template.ts';
import { findTemplate, type TemplateVersion, versionFolder } from '../templates/cached-versions.ts';
import { RECIPES_FOLDER, type Recipe, readRecipes } from '../templates/recipe.ts';
import { ensureRunsc } from './build-runsc.ts';
import { ensureServiceAccounts, type ServiceAccounts } from './service-account.ts';
import { installMissing, missingPackages } from './system-packages.ts';

export type PreparedHost = {
  accounts: ServiceAccounts;
  /** Folder of Node, agent and kernels, as mounted into every sandbox. */
  guestDir: string;
  templates: TemplateVersion[];
};

export type PrepareOptions = {
  /** Folder that all installations of the host share. */
  cacheDir: string;
  /** Time that old versions are kept after their last use; for ever when left out. */
  retentionMs?: number;
  progress?: Progress;
  /** Whether to build gVisor's runtime too; Debian has no package of it. */
  gvisor?: boolean;
  /** Whether to install the load balancer of several servers. */
  balancer?: boolean;
};

/**
 * Installs and builds what this host lacks; takes a fraction of a second when nothing is missing. Safe to interrupt and
 * to repeat.
 *
 * @throws {SetupError} when a requirement cannot be installed, or an installation fails.
 */
export async function prepareHost({
  cacheDir,
  retentionMs,
  progress = silentProgress,
  gvisor = false,
  balancer = false,
}: PrepareOptions): Promise<PreparedHost> {
  const logFile = join(cacheDir, 'building', 'host.log');
  const wholeTable = `Run \`${clocheCommand('doctor')}\` for the whole table.`;
  await progress.step('host', wholeTable, () => requireBase(cacheDir));
  await progress.step('kernel settings', wholeTable, async (note) =>
    note([...(await raiseSysctls()), ...(await limitCrashHandlers()), ...(await speedUpCgroupMoves())].join(', ')),
  );
  const accounts = await withLock(join(cacheDir, 'building', 'host.lock'), async () => {
    await progress.step('system packages', remedyOf, async (note) => {
      const missing = missingPackages(balancer);
      if (missing.length > 0) {
        note((await installMissing(missing, logFile)).join(', '));
        // What could not be tried before.
        await requireBase(cacheDir);
      }
      refuseMissing(await checkTools(REQUIRED_TOOLS), 'Cloche cannot use the tools of this host:');
    });
    return progress.step('service accounts', remedyOf, () => ensureServiceAccounts(logFile));
  });
  if (gvisor) await prepareGvisor(cacheDir, progress);
  const recipes = await readRecipes(RECIPES_FOLDER);
  const templates = await settleAll(recipes.map((recipe) => prepareTemplate(recipe, cacheDir, progress)));
  // After the templates, of which it takes IPython.
  const guestDir = await progress.step('guest files', remedyOf, () => prepareGuest(cacheDir));
  const removed = retentionMs === undefined ? [] : await removeUnused({ cacheDir, retentionMs });
  for (const path of removed) progress.line(`removed after long disuse: ${path}`);
  return { accounts, guestDir, templates };
}

async function requireBase(cacheDir: string): Promise<void> {
  const findings = (await examineBase(cacheDir)).filter(({ installable }) => !installable);
  refuseMissing(findings, 'Cloche cannot isolate sandboxes on this host:');
}

/** Returns the fix of a failure by what the failed command printed. */
export function remedyOf(error: unknown): string {
  const output = error instanceof CommandFailedError ? error.lastLines.join('\n') : String(error);
  return remedyFor(output);
}

/** Throws if a requirement is missing: Cloche never continues with less isolation. */
function refuseMissing(findings: Finding[], title: string): void {
  const missing = findings.filter(({ status }) => status === 'missing');
  if (missing.length === 0) return;
  const lines = missing.map(({ name, found, remedy }) => `  ${name}: ${found}. ${remedy}`);
  throw new SetupError(
    [title, ...lines].join('\n'),
    `Cloche never runs code without isolation. \`${clocheCommand('doctor')}\` shows the whole table.`,
  );
}

async function prepareGvisor(cacheDir: string, progress: Progress): Promise<void> {
  const remedy =
    'CLOCHE_OCI_RUNTIME=runsc requires Go and its module proxy for one build; leave it out to run with crun.';
  await progress.step('gVisor', remedy, async (note) => {
    await ensureRunsc(cacheDir, () => note('built once, which takes two minutes'));
    note(GVISOR_VERSION);
  });
}

/**
 * Builds the guest folder. Imported late, because it loads the bundler, which a start without changes does not need at
 * once.
 */
async function prepareGuest(cacheDir: string): Promise<string> {
  const { buildGuest } = await import('@cloche/agent/build-guest');
  return using(cacheDir, async () => {
    const { guestDir } = await buildGuest({ cacheDir });
    return { result: guestDir, path: guestDir, use: guestUse(basename(guestDir)) };
  });
}

async function prepareTemplate(recipe: Recipe, cacheDir: string, progress: Progress): Promise<TemplateVersion> {
  const title = `template ${recipe.slug}`;
  const remedy = (error: unknown) => `${remedyOf(error)} The build leaves nothing behind.`;
  return progress.step(title, remedy, async (note) => {
    if (!(await findTemplate(recipe, cacheDir))) note('built once, which takes a minute or two');
    const version = await using(cacheDir, async () => {
      const found = await ensureTemplate(recipe, { cacheDir, onWait: () => note('another process is building it') });
      return { result: found, path: versionFolder(found, cacheDir), use: templateUse(found.digest) };
    });
    note(version.version);
    return version;
  });
}

/**
 * Records the use of the entry that `make` finds or builds; repeats `make` if another process removed the entry just
 * before.
 */
async function using<T>(cacheDir: string, make: () => Promise<{ result: T; path: string; use: string }>): Promise<T> {
  const { result, path, use } = await make();
  recordUse(cachePaths(cacheDir).usedDir, use);
  return existsSync(path) ? result : (await make()).result;
}
