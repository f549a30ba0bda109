import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { CommandFailedError } from '../run-logged.ts';
import { runInside } from './run-inside.ts';

const RECIPE = {
  slug: 'small',
  description: 'A small one',
  languages: ['javascript'],
  from: 'debian:bookworm',
  packages: { apt: [], pip: [], npm: [] },
  env: {},
  setup: [],
  locks: {},
};
const PROGRAMS = ['sh', 'id', 'ls', 'cat', 'mknod', 'mount', 'chroot', 'unshare', 'chown', 'readlink'];

let root: string;
before(() => {
  root = mkdtempSync(join(tmpdir(), 'cloche-root-'));
  chmodSync(root, 0o755);
  for (const folder of ['proc', 'dev', 'tmp', 'root', 'home/user', 'bin', 'etc/ssl/certs']) {
    mkdirSync(join(root, folder), { recursive: true });
  }
  chownSync(join(root, 'home/user'), 1000, 1000);
  writeFileSync(join(root, 'etc/resolv.conf'), '');
  for (const program of PROGRAMS) copyProgram(program);
});
after(() => rmSync(root, { recursive: true }));

/** Copies a program with its shared libraries. */
function copyProgram(name: string): void {
  const file = execFileSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim();
  const libraries = execFileSync('ldd', [file], { encoding: 'utf8' }).match(/\/\S+/g) ?? [];
  copyFileSync(file, join(root, 'bin', name));
  for (const library of libraries) {
    mkdirSync(join(root, dirname(library)), { recursive: true });
    copyFileSync(library, join(root, library));
  }
}

const logFile = '/dev/null';
async function inside(command: string, as: 'root' | 'user' = 'root', network?: NodeJS.ProcessEnv): Promise<string> {
  const folder = as === 'root' ? '' : '/home/user';
  const options = { logFile, as, ...(network && { network }) };
  await runInside(root, RECIPE, `{ ${command}; } > ${folder}/out 2>&1`, options);
  return readFileSync(join(root, folder, 'out'), 'utf8').trim();
}

describe('a command in a root file system that is being built', () => {
  it('a command in a root file system that is being built is root of it, and no user of this machine', async () => {
    assert.equal(
      await inside('id -u; id -G; cat /proc/self/uid_map | { read a b c; echo $a $b $c; }'),
      '0\n0\n0 268369920 65536',
    );
    assert.equal(statSync(join(root, 'out')).uid, 0);
    assert.equal(await inside('id -u; id -G', 'user'), '1000\n1000');
    assert.equal(statSync(join(root, 'home/user/out')).uid, 1000);
  });

  it('a command in a root file system that is being built makes no device, mounts nothing and writes no setting of the kernel', async () => {
    const attempts = ['mknod /disk b 7 0', 'mount -t tmpfs none /tmp', 'echo x > /proc/sys/kernel/core_pattern'];
    const pattern = readFileSync('/proc/sys/kernel/core_pattern', 'utf8');
    for (const attempt of attempts) {
      const refusal = await inside(`if ${attempt}; then echo possible; else echo refused; fi`);
      assert.match(refusal, /refused$/, attempt);
    }
    const nested =
      "unshare --user --map-root-user --mount sh -c 'echo x > /proc/sys/kernel/core_pattern' || echo refused";
    assert.match(await inside(nested), /refused$/);
    assert.equal(readFileSync('/proc/sys/kernel/core_pattern', 'utf8'), pattern);
    // The control: without the namespaces, the program can create a device.
    execFileSync('chroot', [root, 'mknod', '/disk', 'b', '7', '0']);
    assert.ok(statSync(join(root, 'disk')).isBlockDevice());
  });

  it('a command in a root file system that is being built sees its own files, processes and five devices', async () => {
    assert.doesNotMatch(await inside('ls /..'), /boot|var|srv/);
    assert.equal(await inside('ls /dev'), 'fd\nfull\nnull\nrandom\nshm\nurandom\nzero');
    const processes = (await inside('ls /proc')).split('\n').filter((name) => /^\d+$/.test(name));
    assert.ok(processes.length < 6, processes.join());
  });

  it('a command in a root file system that is being built has a network only where it is asked for', async () => {
    const devices = (text: string) => text.split('\n').filter((line) => line.includes(':')).length;
    assert.equal(devices(await inside('cat /proc/self/net/dev')), 1);
    assert.equal(
      devices(await inside('cat /proc/self/net/dev', 'root', {})),
      devices(readFileSync('/proc/net/dev', 'utf8')),
    );
  });

  it('a command in a root file system that is being built follows links of its files as the command does, never to a file of this machine', async () => {
    const outside = mkdtempSync(join(tmpdir(), 'cloche-outside-'));
    const resolver = join(root, 'etc/resolv.conf');
    const resolvers = readFileSync('/etc/resolv.conf', 'utf8').trim();
    try {
      writeFileSync(join(outside, 'file'), '');
      writeFileSync(join(root, 'home/resolv.conf'), '');
      const LINKS: readonly [target: string, printed: string][] = [
        ['/home/resolv.conf', resolvers],
        ['../home/resolv.conf', resolvers],
        ['../../../../home/resolv.conf', resolvers],
        ['resolv.conf', ''],
        [join(outside, 'file'), ''],
        [`../../../../../../..${outside}/file`, ''],
      ];
      for (const [target, printed] of LINKS) {
        rmSync(resolver, { force: true });
        symlinkSync(target, resolver);
        assert.equal(await inside('cat /etc/resolv.conf 2>/dev/null || :', 'root', {}), printed, target);
      }
      assert.equal(readFileSync(join(outside, 'file'), 'utf8'), '');
    } finally {
      rmSync(resolver, { force: true });
      writeFileSync(resolver, '');
      rmSync(outside, { recursive: true });
    }
  });

  it('fails with what it printed', async () => {
    await assert.rejects(inside('exit 3'), CommandFailedError);
  });

  it('a command in a root file system that is being built gets settings in the home folder of root, which leave no trace', async () => {
    const settings = mkdtempSync(join(tmpdir(), 'cloche-settings-'));
    writeFileSync(join(settings, 'pip.conf'), 'secret', { mode: 0o600 });
    await runInside(root, RECIPE, 'cat pip.conf > /out', { logFile, as: 'root', settings });
    assert.equal(readFileSync(join(root, 'out'), 'utf8'), 'secret');
    assert.deepEqual(
      execFileSync('ls', ['-A', join(root, 'root'), join(root, 'dev'), join(root, 'tmp')], { encoding: 'utf8' }).match(
        /pip|null/,
      ),
      null,
    );
    rmSync(settings, { recursive: true });
  });
});
