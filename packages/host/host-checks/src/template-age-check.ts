import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CHECKED_AT, cachePaths, clocheCommand } from '@cloche/layout';
import { names } from './cache-retention.ts';
import { type Finding, ok, warning } from './finding.ts';

const DAY_MS = 86_400_000;
/** Age from which the packages of a template likely lack security fixes. */
const OLD_DAYS = 30;

/** The newest version of a template in the cache. */
interface NewestVersion {
  readonly slug: string;
  readonly version: string;
  /** When its packages were installed, or last found to be the newest. */
  readonly packagesAt: number;
}

/** Checks how old the packages of each curated template are: of the newest version in the cache. */
export async function checkTemplateAges(cacheDir: string, now = Date.now()): Promise<Finding[]> {
  const { templatesDir } = cachePaths(cacheDir);
  const newest = await Promise.all((await names(templatesDir)).sort().map((slug) => newestVersion(templatesDir, slug)));
  return newest.filter((each) => each !== undefined).map((each) => findingOf(each, now));
}

function findingOf({ slug, version, packagesAt }: NewestVersion, now: number): Finding {
  const days = Math.max(0, Math.floor((now - packagesAt) / DAY_MS));
  const found = `packages of ${days === 0 ? 'today' : days === 1 ? 'yesterday' : `${days} days ago`} (${version})`;
  if (days <= OLD_DAYS) return ok(`template ${slug}`, found);
  return warning(
    `template ${slug}`,
    found,
    `\`${clocheCommand(`template refresh ${slug}`)}\` builds it with today's packages, which have later security fixes.`,
  );
}

async function newestVersion(templatesDir: string, slug: string): Promise<NewestVersion | undefined> {
  let newest: (NewestVersion & { builtAt: string }) | undefined;
  for (const digest of await names(join(templatesDir, slug))) {
    const folder = join(templatesDir, slug, digest);
    const text = await readFile(join(folder, 'manifest.json'), 'utf8').catch(() => undefined);
    if (text === undefined) continue;
    const {
      version,
      builtAt,
      packagesAt = builtAt,
    } = JSON.parse(text) as Record<'version' | 'builtAt', string> & {
      packagesAt?: string;
    };
    if (newest && newest.builtAt >= builtAt) continue;
    const checkedAt = await readFile(join(folder, CHECKED_AT), 'utf8').catch(() => packagesAt);
    newest = { slug, version, builtAt, packagesAt: Date.parse(checkedAt) };
  }
  return newest;
}
