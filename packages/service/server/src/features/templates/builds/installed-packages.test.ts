import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, it } from 'node:test';
import { longestTurn } from '@cloche/testkit/longest-turn';
import { LIST_PACKAGES, LISTED_BYTES, parseInstalledPackages } from './installed-packages.ts';

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

it('global packages of npm are listed, with scopes, and broken ones are left out', async () => {
  install('plain', '{"name":"plain","version":"1.2.3"}');
  install('@scope/inner', '{"name":"@scope/inner","version":"0.1.0-beta.1"}');
  install('broken', 'no JSON');
  writeFileSync(join(prefix, 'lib/node_modules/.package-lock.json'), '{}');
  const { npm } = await list({ PATH: `${dirname(process.execPath)}:${programs}`, NPM_CONFIG_PREFIX: prefix });
  assert.deepEqual(npm, { plain: '1.2.3', '@scope/inner': '0.1.0-beta.1' });
});

it('a sandbox without a package manager has no packages', async () => {
  assert.deepEqual(await list({ PATH: programs }), {});
});

it('a listing of as many lines as fit keeps other work waiting hardly longer than an honest one of its size', async () => {
  const honest = Array.from({ length: 4_990 }, (_, index) => {
    return `apt\t${`p${index}-`.padEnd(200, 'x')}\t${'1'.padEnd(200, '.0')}`;
  }).join('\n');
  const names = Array.from({ length: 4_990 }, (_, index) => `apt\tp${index}\t1`).join('\n');
  const hostile = `${names}\n${'apt\tp1\t1\n'.repeat(LISTED_BYTES / 8)}`.slice(0, honest.length);
  for (const text of [honest, hostile]) await parseInstalledPackages(text);

  const expected = await longestTurn(() => parseInstalledPackages(honest));
  const attacked = await longestTurn(async () => {
    const { apt } = await parseInstalledPackages(hostile);
    assert.equal(Object.keys(apt ?? {}).length, 4_990);
  });

  assert.ok(attacked < 5 * expected, `${attacked} ms, ${expected} ms for an honest one`);
});
