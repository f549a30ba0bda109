/** Installs the files of a release into empty folders, and uses what is installed. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { CACHE_DIR } from '../../packages/guest/agent/testing/test-cache.ts';
import { ARCHITECTURES, type Architecture } from '../distribution/tree.ts';
import { installInto, PYTHON } from '../python-tools.ts';
import { checkFiles } from './check-files.ts';
import { releaseFiles, templateArchives } from './release-files.ts';
import { type ReleasedService, startReleasedService } from './released-service.ts';

const NODE = resolve('node_modules/.bin/node');
const OF_SDK = `
import { Cloche } from '@cloche/sdk';
import { packDirectory } from '@cloche/sdk/node';
import { verifyWebhook } from '@cloche/sdk/webhooks';
if (![packDirectory, verifyWebhook].every((each) => typeof each === 'function')) throw new Error('an export is missing');
if (process.env.CLOCHE_API_KEY) {
  const sandbox = await new Cloche().sandboxes.create({ ttlMs: 600_000 });
  process.stdout.write((await sandbox.run('print(6 * 7)')).stdout);
  await sandbox.kill();
} else new Cloche({ url: 'http://localhost', apiKey: 'none' });
`;
const OF_PYTHON_SDK = `
import os, cloche
print(cloche.__version__)
if "CLOCHE_API_KEY" in os.environ:
    with cloche.Sandbox.create(ttl_ms=600_000) as sandbox:
        print(sandbox.run("print(6 * 7)").stdout, end="")
`;

export interface CheckedRelease {
  /** Folder with the files. */
  readonly out: string;
  readonly version: string;
  readonly architectures: readonly Architecture[];
  readonly isSigned: boolean;
}

/**
 * Checks a release. Prints a line for each thing that was installed and used, or why one was not.
 *
 * @throws an error if anything is missing, changed, or does not work from an empty folder
 */
export async function checkRelease(release: CheckedRelease): Promise<void> {
  const { out, version, architectures } = release;
  const names = [...releaseFiles(version, architectures), ...templateArchives(out, version)];
  checkFiles(out, names, release.isSigned);
  console.log(`✔ ${names.length} files have their checksums${release.isSigned ? ' and a signature' : ''}`);
  const folder = mkdtempSync(join(tmpdir(), 'cloche-release-check-'));
  // Processes of the service run as other users.
  chmodSync(folder, 0o711);
  try {
    const own = architectures.find((each) => each === process.arch);
    const archive = own && unpackArchive(release, own, folder);
    for (const architecture of architectures) checkDebian(release, architecture, folder);
    for (const architecture of architectures) checkBill(release, architecture);
    await using service = await serviceOf(archive, folder);
    const env = { PATH: process.env.PATH, HOME: folder, ...service?.env };
    const npm = installNpm(release, folder);
    const python = installWheels(release, folder);
    expect('the command line of npm', run(join(npm, 'node_modules/.bin/cloche'), ['--version'], env), version);
    const answer = service ? '42' : '';
    if (service) {
      const code = ['run', '-c', 'print(6 * 7)'];
      expect(
        'the command line of npm, with the service',
        run(join(npm, 'node_modules/.bin/cloche'), code, env),
        answer,
      );
    }
    expect('the SDK of npm', run(NODE, [join(npm, 'first.js')], env), answer);
    expect('the wheel', run(python, ['-I', '-c', OF_PYTHON_SDK], env), [version, answer].join('\n').trim());
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Starts the service of the archive, as root. */
async function serviceOf(archive: string | undefined, folder: string): Promise<ReleasedService | undefined> {
  if (archive !== undefined && process.getuid?.() === 0) return startReleasedService(archive, folder);
  console.log(
    '- the service is not started, which needs root and an archive for this machine: clients are used without',
  );
  return undefined;
}

/** Returns the folder of the unpacked archive. */
function unpackArchive({ out, version }: CheckedRelease, architecture: Architecture, folder: string): string {
  const file = join(out, `cloche-${version}-linux-${architecture}.tar.gz`);
  execFileSync('tar', ['--extract', '--file', file, '--directory', folder, '--no-same-owner']);
  const archive = join(folder, 'cloche');
  expect('the archive', run(join(archive, 'bin/cloche'), ['--version'], { PATH: process.env.PATH }), version);
  return archive;
}

function checkDebian({ out, version }: CheckedRelease, architecture: Architecture, folder: string): void {
  const file = join(out, `cloche_${version}_${ARCHITECTURES[architecture]}.deb`);
  const name = `the package for ${ARCHITECTURES[architecture]}`;
  expect(name, run('dpkg-deb', ['--field', file, 'Version']), version);
  if (architecture !== process.arch) return;
  const installed = join(folder, 'debian');
  execFileSync('dpkg-deb', ['--extract', file, installed]);
  const program = join(installed, 'opt/cloche/bin/cloche');
  expect(`${name}, unpacked`, run(program, ['--version'], { PATH: process.env.PATH }), version);
}

function checkBill({ out, version }: CheckedRelease, architecture: Architecture): void {
  const file = join(out, `cloche-${version}-linux-${architecture}.cdx.json`);
  const { metadata, components } = JSON.parse(readFileSync(file, 'utf8'));
  expect(`the bill of materials for ${architecture}`, metadata.component.version, version);
  const unknown = components.filter((each: { version?: string }) => !each.version);
  if (components.length < 100 || unknown.length > 0) {
    throw new Error(`${file} lists ${components.length} components, ${unknown.length} without a version.`);
  }
}

/** Installs the packages of npm without a registry, and returns the folder. */
function installNpm({ out, version }: CheckedRelease, parent: string): string {
  const folder = join(parent, 'npm');
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  writeFileSync(join(folder, 'first.js'), OF_SDK);
  const tarballs = ['cloche-sdk', 'cloche'].map((name) => join(out, `${name}-${version}.tgz`));
  // The variables of a surrounding `npm run` would apply its settings to this folder.
  const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => !/^npm_/i.test(key)));
  const options = ['--offline', '--no-audit', '--no-fund', '--loglevel=error'];
  execFileSync('npm', ['install', ...options, ...tarballs], {
    cwd: folder,
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const installed = readdirSync(join(folder, 'node_modules')).filter((name) => !name.startsWith('.'));
  expect('what npm installs', installed.sort().join(' '), '@cloche cloche');
  return folder;
}

/** Installs the wheel of the SDK in an empty environment, and returns its interpreter. */
function installWheels({ out, version }: CheckedRelease, parent: string): string {
  const folder = join(parent, 'venv');
  execFileSync(PYTHON, ['-m', 'venv', '--without-pip', folder]);
  const python = join(folder, 'bin/python');
  installInto(python, CACHE_DIR, join(out, `cloche-${version}-py3-none-any.whl`));
  if (!existsSync(python)) throw new Error(`${PYTHON} made no environment.`);
  return python;
}

function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): string {
  return execFileSync(program, args, { env, encoding: 'utf8', timeout: 300_000 }).trim();
}

function expect(name: string, actual: string, expected: string): void {
  if (actual !== expected) throw new Error(`${name}: "${actual}", in place of "${expected}"`);
  console.log(`✔ ${name}${expected === '' ? '' : `: ${expected.replaceAll('\n', ', ')}`}`);
}
