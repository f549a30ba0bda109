import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { CodeCachedProgram } from '@cloche/node-support';
import { needsRoot } from '@cloche/testkit/needs-root';
import { AGENT_PROGRAM, PRECOMPILED_AGENT } from './agent-program.ts';
import { buildGuest } from './build-guest.ts';

const cacheDir = mkdtempSync(join(tmpdir(), 'cloche-guest-test-'));
after(() => rmSync(cacheDir, { recursive: true }));
let buildingMs = 0;
const skip = !existsSync('/usr/bin/tini-static') && 'tini-static is not installed';

test('the guest folder is built once, whole and readable, however many ask for it', { skip }, async () => {
  const startedAt = performance.now();
  const guests = await Promise.all([1, 2, 3].map(() => buildGuest({ cacheDir })));
  buildingMs = performance.now() - startedAt;
  const { guestDir, digest } = guests[0] ?? { guestDir: '', digest: '' };
  assert.deepEqual(guests, Array(3).fill({ guestDir, digest }));
  assert.equal(guestDir, join(cacheDir, 'guest', digest));
  assert.deepEqual(readdirSync(join(cacheDir, 'guest')), [digest], 'nothing of the building is left');
  for (const file of ['agent.cjs', PRECOMPILED_AGENT, 'kernel-js/main.cjs', 'python/cloche_kernel/kernel.py']) {
    assert.equal(statSync(join(guestDir, file)).mode & 0o777, 0o644, file);
  }
  assert.ok(readdirSync(join(guestDir, 'python/cloche_kernel/__pycache__')).length > 0);
  for (const entry of readdirSync(guestDir, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) assert.equal(statSync(join(entry.parentPath, entry.name)).mode & 0o777, 0o755);
  }
});

test('the folder has one name on every machine with the same programs', { skip }, async () => {
  const elsewhere = mkdtempSync(join(cacheDir, 'elsewhere-'));
  // As in another checkout: other paths, other times of change.
  const own = join(import.meta.dirname, '../../../../..');
  execFileSync('cp', ['--recursive', join(own, 'package.json'), join(own, 'package-lock.json'), elsewhere]);
  execFileSync('cp', ['--recursive', join(own, 'packages'), elsewhere]);
  symlinkSync(join(own, 'node_modules'), join(elsewhere, 'node_modules'));
  const program = `import { buildGuest } from ${JSON.stringify(join(elsewhere, 'packages/guest/agent/src/guest/build-guest.ts'))};
    console.log((await buildGuest({ cacheDir: ${JSON.stringify(cacheDir)} })).digest)`;
  const printed = execFileSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
  assert.equal(printed.trim(), (await buildGuest({ cacheDir })).digest);
});

test('the agent carries no schemas, which every sandbox would pay for', { skip }, async () => {
  const { guestDir } = await buildGuest({ cacheDir });
  assert.ok(!readFileSync(join(guestDir, AGENT_PROGRAM), 'utf8').includes('typebox'));
});

test('V8 has compiled the agent, and takes that from its folder', { skip }, async () => {
  const { guestDir } = await buildGuest({ cacheDir });
  const precompiled = readFileSync(join(guestDir, PRECOMPILED_AGENT));
  assert.ok(new CodeCachedProgram(join(guestDir, AGENT_PROGRAM), precompiled).isPrecompiled);
  // This file only contains the loader. Everything else is in the program.
  assert.ok(statSync(join(guestDir, 'agent.cjs')).size < statSync(join(guestDir, AGENT_PROGRAM)).size / 20);
});

test('an agent that idles has loaded no cryptography and no compression', { skip }, async () => {
  const { guestDir } = await buildGuest({ cacheDir });
  const tellLoaded = 'setTimeout(() => { console.log(JSON.stringify(process.moduleLoadList)); process.exit() }, 300)';
  const args = ['--import', `data:text/javascript,${tellLoaded}`, join(guestDir, 'agent.cjs')];
  const env = { CLOCHE_LISTEN_PATH: join(cacheDir, 'agent.sock'), CLOCHE_WORKSPACE: cacheDir };
  const loaded: string[] = JSON.parse(execFileSync(join(guestDir, 'bin/node'), args, { env }).toString());
  assert.ok(loaded.includes('NativeModule http'), 'the agent ran');
  assert.deepEqual(
    loaded.filter((name) => /^NativeModule (crypto|zlib)$/.test(name)),
    [],
  );
});

test('its programs run by themselves', { skip }, async () => {
  const { guestDir } = await buildGuest({ cacheDir });
  const node = join(guestDir, 'bin/node');
  assert.equal(execFileSync(join(guestDir, 'bin/tini'), ['-s', '--', node, '-p', '6*7']).toString().trim(), '42');
  execFileSync(join(guestDir, 'kernel-js/bin/esbuild'), ['--version']);
});

test('its programs run on a root file system without any library', { skip: skip || needsRoot }, async () => {
  const { guestDir } = await buildGuest({ cacheDir });
  const root = mkdtempSync(join(cacheDir, 'empty-root-'));
  // Hard links, because a copy of Node takes long.
  execFileSync('cp', ['--archive', '--link', guestDir, join(root, 'guest')]);
  const inEmptyRoot = (...args: string[]) =>
    execFileSync('/usr/sbin/chroot', [root, ...args], { encoding: 'utf8', env: {} });
  const withLibraries = ['/guest/lib/ld.so', '--library-path', '/guest/lib'];
  assert.equal(inEmptyRoot(...withLibraries, '/guest/bin/node', '-p', '6*7'), '42\n');
  assert.equal(inEmptyRoot('/guest/bin/release-shared'), '');
  assert.match(inEmptyRoot('/guest/bin/sudo-client', '/socket', '-h'), /^usage: sudo/);
  // Without an agent it ends with status 1. A program that cannot be started has status 127.
  const stdio = ['ignore', 'ignore', 'inherit', 'ignore'] as const;
  assert.equal(spawnSync('/usr/sbin/chroot', [root, '/guest/bin/supervise'], { stdio: [...stdio] }).status, 1);
  assert.throws(() => inEmptyRoot('/guest/bin/node', '-p', '1'), 'without them it does not start');
});

test('asking again costs next to nothing', { skip }, async () => {
  let leastMs = Number.POSITIVE_INFINITY;
  for (let time = 0; time < 5; time++) {
    const startedAt = performance.now();
    await buildGuest({ cacheDir });
    leastMs = Math.min(leastMs, performance.now() - startedAt);
  }
  assert.ok(leastMs < buildingMs / 10, `${leastMs} ms, and ${buildingMs} ms for building it`);
});
