import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export type InstalledPackages = Record<string, Record<string, string>>;

/**
 * Returns name and version of all packages in a root file system, by package manager. Runs no program in it.
 *
 * @param node version of the bare Node program there, if any
 */
export async function listInstalledPackages(root: string, node?: string): Promise<InstalledPackages> {
  const [apt, pip, npm] = await Promise.all([listApt(root), listPip(root), listNpm(root, node)]);
  return { apt, ...(Object.keys(pip).length > 0 && { pip }), ...(Object.keys(npm).length > 0 && { npm }) };
}

async function listApt(root: string): Promise<Record<string, string>> {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: these are placeholders of dpkg-query.
  const format = '${Package}\\t${Version}\\n';
  const { stdout } = await run('dpkg-query', [
    `--admindir=${join(root, 'var/lib/dpkg')}`,
    '--show',
    `--showformat=${format}`,
  ]);
  const rows = stdout
    .trim()
    .split('\n')
    .map((line): [string, string] => {
      const [name = '', version = ''] = line.split('\t');
      return [name, version];
    });
  return Object.fromEntries(rows.sort(byName));
}

/** Reads the folders that pip writes, so that no program of the root file system has to run. */
async function listPip(root: string): Promise<Record<string, string>> {
  const library = join(root, 'usr/local/lib');
  const found: [string, string][] = [];
  for (const python of (await names(library)).filter((name) => name.startsWith('python3'))) {
    for (const entry of await names(join(library, python, 'dist-packages'))) {
      const match = /^(?<name>.+)-(?<version>[^-]+)\.dist-info$/.exec(entry);
      if (match?.groups) found.push([match.groups.name ?? '', match.groups.version ?? '']);
    }
  }
  return Object.fromEntries(found.sort(byName));
}

async function listNpm(root: string, node: string | undefined): Promise<Record<string, string>> {
  const modules = join(root, 'usr/local/lib/node_modules');
  const found: [string, string][] = node === undefined ? [] : [['node', node]];
  for (const entry of await names(modules)) {
    const packages = entry.startsWith('@')
      ? (await names(join(modules, entry))).map((name) => `${entry}/${name}`)
      : [entry];
    for (const name of packages) {
      const { version } = JSON.parse(await readFile(join(modules, name, 'package.json'), 'utf8')) as {
        version: string;
      };
      found.push([name, version]);
    }
  }
  return Object.fromEntries(found.sort(byName));
}

async function names(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}

function byName([a]: [string, string], [b]: [string, string]): number {
  return a < b ? -1 : 1;
}
