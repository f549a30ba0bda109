import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, it } from 'node:test';
import { LIST_PACKAGES, parseInstalledPackages } from './installed-packages.ts';

const BASH = '/bin/bash';
const prefix = mkdtempSync(join(tmpdir(), 'cloche-packages-'));
/** Has nothing but `cat`. */
const programs = join(prefix, 'programs');
mkdirSync(programs);
symlinkSync('/bin/cat', join(programs, 'cat'));
after(() => rmSync(prefix, { recursive: true }));

function install(name: string, manifest: string): void {
  const folder = join(prefix, 'lib/node_modules', name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), manifest);
}

function list(env: NodeJS.ProcessEnv) {
  return parseInstalledPackages(execFileSync(BASH, LIST_PACKAGES.slice(1), { env, encoding: 'utf8' }));
}

it('global packages of npm are listed, with scopes, and broken ones are left out', () => {
  install('plain', '{"name":"plain","version":"1.2.3"}');
  install('@scope/inner', '{"name":"@scope/inner","version":"0.1.0-beta.1"}');
  install('broken', 'no JSON');
  writeFileSync(join(prefix, 'lib/node_modules/.package-lock.json'), '{}');
  const { npm } = list({ PATH: `${dirname(process.execPath)}:${programs}`, NPM_CONFIG_PREFIX: prefix });
  assert.deepEqual(npm, { plain: '1.2.3', '@scope/inner': '0.1.0-beta.1' });
});

it('a sandbox without a package manager has no packages', () => {
  assert.deepEqual(list({ PATH: programs }), {});
});
