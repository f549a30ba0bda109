import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** This machine's configuration of where and how apt downloads packages. */
export type AptConfiguration = {
  /** Lines for a `sources.list`. */
  sources: string[];
  /** Lines for an `apt.conf`: proxies, certificates and checks of downloads. */
  options: string[];
};

/** Reads the configuration of apt. Without a source of Debian the sources are empty, and the builder uses Debian's own. */
export async function readAptConfiguration(release: string): Promise<AptConfiguration> {
  const [targets, dump] = await Promise.all([
    run('apt-get', [
      'indextargets',
      '--format',
      '$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(SIGNED_BY)\t$(ORIGIN)\t$(LABEL)',
      'Created-By: Packages',
    ]),
    run('apt-config', ['dump']),
  ]);
  return { sources: sourcesOf(targets.stdout, release), options: parseDownloadOptions(dump.stdout) };
}

/** A list of packages that this machine knows. apt prints the name of a field that a source does not have. */
interface Target {
  readonly uri: string;
  readonly suite: string;
  readonly component: string;
  readonly signedBy: string;
  readonly origin: string;
  readonly label: string;
}

/**
 * Returns the sources of the release, its updates and its security fixes; sources of other vendors are left out. Where
 * this machine has another release of Debian, returns the same of its mirrors.
 *
 * @param targets lines of `apt-get indextargets`
 */
export function sourcesOf(targets: string, release: string): string[] {
  const known = targets.split('\n').filter(Boolean).map(targetOf);
  const own = known.filter(({ suite }) => [release, `${release}-updates`, `${release}-security`].includes(suite));
  const found = own.length > 0 ? own : known.flatMap((target) => inRelease(target, release));
  return [...new Set(found.map(lineOf))];
}

function targetOf(line: string): Target {
  const [uri = '', suite = '', component = '', signedBy = '', origin = '', label = ''] = line.split('\t');
  return { uri, suite, component, signedBy, origin, label };
}

/** Returns the targets of a release at a mirror that has another release of Debian. */
function inRelease(target: Target, release: string): Target[] {
  if (target.origin !== 'Debian' || target.component !== 'main') return [];
  if (target.label === 'Debian-Security') return [{ ...target, suite: `${release}-security` }];
  if (target.label !== 'Debian') return [];
  return [release, `${release}-updates`].map((suite) => ({ ...target, suite }));
}

function lineOf({ uri, suite, component, signedBy }: Target): string {
  const option = signedBy.startsWith('/') ? `[signed-by=${signedBy}] ` : '';
  return `deb ${option}${uri} ${suite} ${component}`;
}

/** Returns the lines of `apt-config dump` about downloads. */
export function parseDownloadOptions(dump: string): string[] {
  const wanted = /^Acquire::(https?::|ftp::|Check-|Retries|ForceIPv|Allow\w+Repositories)/;
  return dump.split('\n').filter((line) => wanted.test(line) && !line.endsWith(' "";'));
}

/** Returns the same sources for a template, without options and without possible credentials in their addresses. */
export function plainSources(sources: readonly string[]): string[] {
  return sources.flatMap((line) => {
    const [, address = '', ...rest] = line.replace(/^deb \[[^\]]*\]/, 'deb').split(' ');
    const url = URL.parse(address);
    // Local files and disks of this machine are unreachable from a sandbox.
    if (!url || !['http:', 'https:'].includes(url.protocol)) return [];
    return [`deb ${url.origin}${url.pathname} ${rest.join(' ')}`];
  });
}
