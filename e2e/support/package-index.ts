/**
 * Serves packages of apt, pip and npm on a test internet, so that installing them is real and needs no other network.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TemplateFile } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { execa } from 'execa';
import type { TestInternet } from './test-internet.ts';

const PORT = 8090;

export interface PackageIndex extends AsyncDisposable {
  /** Files that make the package managers of a sandbox use the index. */
  readonly files: TemplateFile[];
}

/**
 * Has one package called `cloche-greeting` for each package manager, and for pip a second version, which the package
 * `cloche-polite` does not take.
 */
export async function packageIndex({ address, namespace }: TestInternet): Promise<PackageIndex> {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-index-'));
  const url = `http://${address}:${PORT}`;
  let server: ChildProcess | undefined;
  const dispose = async () => {
    server?.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    await makeWheels(join(folder, 'simple'), [
      { name: 'cloche-greeting', version: '1.0' },
      { name: 'cloche-greeting', version: '2.0' },
      { name: 'cloche-polite', version: '1.0', requires: 'cloche-greeting<2' },
      { name: 'cloche-plain', version: '1.0' },
    ]);
    await makeDeb(join(folder, 'apt'));
    await makeNpm(join(folder, 'npm'), url);
    const serve = ['-m', 'http.server', String(PORT), '--directory', folder];
    server = spawn('ip', ['netns', 'exec', namespace, 'python3', ...serve], { stdio: 'ignore' });
    await eventually(async () => (await fetch(`${url}/simple/`).catch(() => undefined))?.ok ?? false);
  } catch (error) {
    await dispose();
    throw error;
  }
  const pip = `[global]\nindex-url = ${url}/simple\ntrusted-host = ${address}\n`;
  return {
    files: [
      { path: '/etc/pip.conf', content: pip },
      { path: '/etc/apt/sources.list', content: `deb [trusted=yes] ${url}/apt ./\n` },
      { path: '/root/.npmrc', content: `registry=${url}/npm/\n` },
    ],
    [Symbol.asyncDispose]: dispose,
  };
}

/** A wheel of pip. `requires` is a requirement of it. */
interface Wheel {
  readonly name: string;
  readonly version: string;
  readonly requires?: string;
}

async function makeWheels(folder: string, wheels: readonly Wheel[]): Promise<void> {
  for (const { name, version, requires } of wheels) {
    const module = name.replace('-', '_');
    const info = `${module}-${version}.dist-info`;
    const place = join(folder, name);
    mkdirSync(join(place, info), { recursive: true });
    const requirement = requires === undefined ? '' : `Requires-Dist: ${requires}\n`;
    const files = {
      [`${module}.py`]: 'TEXT = "hello from pip"\n',
      [`${info}/METADATA`]: `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n${requirement}`,
      [`${info}/WHEEL`]: 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    };
    const record = Object.entries(files).map(([path, text]) => {
      writeFileSync(join(place, path), text);
      return `${path},sha256=${createHash('sha256').update(text).digest('base64url')},${text.length}\n`;
    });
    writeFileSync(join(place, info, 'RECORD'), `${record.join('')}${info}/RECORD,,\n`);
    const wheel = `${module}-${version}-py3-none-any.whl`;
    await execa('python3', ['-m', 'zipfile', '-c', wheel, `${module}.py`, info], { cwd: place });
    appendFileSync(join(place, 'index.html'), `<a href="${wheel}">${wheel}</a>`);
  }
}

async function makeDeb(folder: string): Promise<void> {
  const root = join(folder, 'root');
  mkdirSync(join(root, 'DEBIAN'), { recursive: true });
  mkdirSync(join(root, 'opt'), { recursive: true });
  const control =
    'Package: cloche-greeting\nVersion: 1.0\nArchitecture: all\nMaintainer: Test <test@cloche.test>\nDescription: Test\n';
  writeFileSync(join(root, 'DEBIAN', 'control'), control);
  writeFileSync(join(root, 'opt', 'greeting'), 'hello from apt\n');
  await execa('dpkg-deb', ['--build', '--root-owner-group', root, join(folder, 'cloche-greeting.deb')]);
  const deb = readFileSync(join(folder, 'cloche-greeting.deb'));
  const sha256 = createHash('sha256').update(deb).digest('hex');
  const stanza = `${control}Filename: ./cloche-greeting.deb\nSize: ${deb.length}\nSHA256: ${sha256}\n`;
  writeFileSync(join(folder, 'Packages'), stanza);
}

async function makeNpm(folder: string, url: string): Promise<void> {
  const root = join(folder, 'files', 'package');
  mkdirSync(root, { recursive: true });
  const manifest = { name: 'cloche-greeting', version: '1.0.0', bin: { 'cloche-greeting': 'greeting.sh' } };
  writeFileSync(join(root, 'package.json'), JSON.stringify(manifest));
  writeFileSync(join(root, 'greeting.sh'), '#!/bin/sh\necho hello from npm\n', { mode: 0o755 });
  await execa('tar', ['-czf', '../greeting.tgz', '-C', join(folder, 'files'), 'package'], { cwd: root });
  const tarball = readFileSync(join(folder, 'files', 'greeting.tgz'));
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
  const dist = { tarball: `${url}/npm/files/greeting.tgz`, integrity };
  const document = {
    name: 'cloche-greeting',
    'dist-tags': { latest: '1.0.0' },
    versions: { '1.0.0': { ...manifest, dist } },
  };
  writeFileSync(join(folder, 'cloche-greeting'), JSON.stringify(document));
}
