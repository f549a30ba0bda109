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

/**
 * Reads the configuration of apt.
 * @throws Error when no source of this machine has the release.
 */
export async function readAptConfiguration(release: string): Promise<AptConfiguration> {
  const [targets, dump] = await Promise.all([
    run('apt-get', [
      'indextargets',
      '--format',
      '$(REPO_URI)\t$(RELEASE)\t$(COMPONENT)\t$(SIGNED_BY)',
      'Created-By: Packages',
    ]),
    run('apt-config', ['dump']),
  ]);
  const sources = parseIndexTargets(targets.stdout, release);
  if (sources.length === 0) {
    throw new Error(`No apt source of this machine has Debian ${release}: add one to /etc/apt/sources.list.d.`);
  }
  return { sources, options: parseDownloadOptions(dump.stdout) };
}

/** Returns the sources of the release, its updates and its security fixes; sources of other vendors are left out. */
export function parseIndexTargets(targets: string, release: string): string[] {
  const lines = targets
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split('\t'))
    .filter(([, suite = '']) => [release, `${release}-updates`, `${release}-security`].includes(suite))
    .map(([uri, suite, component, signedBy = '']) => {
      // apt prints the name of a field that a source does not have.
      const option = signedBy.startsWith('/') ? `[signed-by=${signedBy}] ` : '';
      return `deb ${option}${uri} ${suite} ${component}`;
    });
  return [...new Set(lines)];
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
