import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { SYSTEM_PACKAGES } from '../../packages/host/host-checks/src/index.ts';
import { BALANCER } from '../../packages/host/setup/src/host/system-packages.ts';
import { manualPage } from './manual-page.ts';
import { settingsList } from './settings-list.ts';
import { ARCHITECTURES, type Architecture, linkTree, normalise, releaseTime, type Tree } from './tree.ts';

/** Libraries that Node and the native modules link to. Every Debian has them. */
const LIBRARIES = ['libc6 (>= 2.28)', 'libgcc-s1', 'libstdc++6'];
const CONFIGURATION = 'etc/cloche/cloche.env';

export interface DebianOptions {
  readonly version: string;
  /** Compression of the content, as dpkg-deb names it. */
  readonly compression?: 'zstd' | 'none';
}

/** Packs a tree as a package of Debian, by dpkg-deb and without root, and returns its path in `out`. */
export async function packDebian(
  tree: Tree,
  out: string,
  { version, compression = 'zstd' }: DebianOptions,
): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-debian-'));
  try {
    await layOut(tree, folder, version);
    const file = join(out, `cloche_${version}_${ARCHITECTURES[tree.architecture]}.deb`);
    const env = { ...process.env, SOURCE_DATE_EPOCH: `${releaseTime()}` };
    // Higher levels take ten times as long and save 3 %.
    const options = ['--root-owner-group', `-Z${compression}`, ...(compression === 'zstd' ? ['-z9'] : [])];
    execFileSync('dpkg-deb', [...options, '--build', folder, `${file}.part`], { env });
    renameSync(`${file}.part`, file);
    return file;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function layOut(tree: Tree, folder: string, version: string): Promise<void> {
  for (const name of [
    'opt',
    'usr/bin',
    'usr/lib/systemd',
    'usr/share/man/man1',
    'usr/share/doc/cloche',
    'etc/cloche',
  ]) {
    mkdirSync(join(folder, name), { recursive: true });
  }
  linkTree(tree, join(folder, 'opt/cloche'));
  symlinkSync('/opt/cloche/bin/cloche', join(folder, 'usr/bin/cloche'));
  cpSync('deploy/systemd', join(folder, 'usr/lib/systemd/system'), { recursive: true });
  writeFileSync(join(folder, 'usr/share/man/man1/cloche.1.gz'), gzipSync(await manualPage(version, releaseTime())));
  writeFileSync(join(folder, 'usr/share/doc/cloche/copyright'), copyright());
  writeFileSync(join(folder, 'opt/cloche/settings.env'), settingsList());
  cpSync('deploy/cloche.env', join(folder, CONFIGURATION));
  normalise(folder);
  // It may get keys and passwords.
  chmodSync(join(folder, CONFIGURATION), 0o600);
  addControl(tree, folder, version);
}

/** Adds what dpkg itself reads. */
function addControl({ architecture }: Tree, folder: string, version: string): void {
  const files = globSync('**', { cwd: folder, withFileTypes: true }).filter((entry) => entry.isFile());
  const contents = files.map(({ parentPath, name }) => join(parentPath, name)).sort();
  const control = join(folder, 'DEBIAN');
  mkdirSync(control);
  for (const script of globSync('deploy/debian/*')) cpSync(script, join(control, basename(script)));
  writeFileSync(join(control, 'conffiles'), `/${CONFIGURATION}\n`);
  const sums = contents.map((file) => `${md5(file)}  ${file.slice(folder.length + 1)}\n`);
  writeFileSync(join(control, 'md5sums'), sums.join(''));
  const kib = contents.reduce((sum, file) => sum + Math.ceil(statSync(file).size / 1024), 0);
  writeFileSync(join(control, 'control'), controlFields(architecture, version, kib));
  normalise(control);
}

function controlFields(architecture: Architecture, version: string, kib: number): string {
  const needed = SYSTEM_PACKAGES.map(({ packages }) => packages['apt-get']);
  const fields = {
    Package: 'cloche',
    Version: version,
    Architecture: ARCHITECTURES[architecture],
    Maintainer: 'The Cloche authors',
    'Installed-Size': kib,
    Depends: [...LIBRARIES, ...needed].join(', '),
    // The load balancer of several servers, and what builds gVisor.
    Suggests: [BALANCER.packages['apt-get'], 'golang-go'].join(', '),
    Section: 'admin',
    Priority: 'optional',
    Description: [
      'isolated sandboxes that run untrusted code, behind an HTTP API',
      ' Clients create sandboxes, and run Python, JavaScript, TypeScript and shell',
      ' commands in them. The package brings its own Node.js. The first start builds',
      ' the templates of sandboxes, for which it downloads packages.',
    ].join('\n'),
  };
  return Object.entries(fields)
    .map(([name, value]) => `${name}: ${value}\n`)
    .join('');
}

function copyright(): string {
  const head = [
    'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/',
    'Upstream-Name: Cloche',
    'Comment: Packages in /opt/cloche/node_modules have their own licences, each in the',
    ' folder of its package. The software bill of materials of the release lists them.',
    '',
    'Files: *',
    'Copyright: The Cloche authors',
    'License: Apache-2.0',
  ];
  const licence = readFileSync('LICENSE', 'utf8').trimEnd().split('\n');
  return [...head, ...licence.map((line) => ` ${line.trim() === '' ? '.' : line}`), ''].join('\n');
}

function md5(file: string): string {
  return createHash('md5').update(readFileSync(file)).digest('hex');
}
