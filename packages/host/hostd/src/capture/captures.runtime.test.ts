import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { CapturedVersion } from '@cloche/protocol';
import { HostdProcess, IDLE_COMMAND } from '../../testing/hostd-process.ts';
import { EVER, hostdSuite } from '../../testing/hostd-suite.ts';
import { runInside } from '../../testing/inside.ts';
import { MEBIBYTE, makeInstallation, makeSpec, type SpecChanges } from '../../testing/installation.ts';
import { instanceLeftovers } from '../../testing/leftovers.ts';

/** Changes of one kind each: a script that makes it, and one that prints what another sandbox must see. */
const CHANGES = {
  'a new file': ['echo hello > /opt/new', 'cat /opt/new'],
  'a changed file': ['echo more >> /etc/passwd', 'tail -n 1 /etc/passwd'],
  'a removed file': ['rm /etc/fstab /etc/debian_version', 'ls /etc/debian_version || echo gone'],
  'a removed folder': ['rm -r /usr/share/doc', 'ls /usr/share/doc || echo gone'],
  'a folder that replaces another': [
    'rm -r /usr/games /srv; mkdir /srv; touch /srv/x',
    'ls -A /srv /usr/games || echo gone',
  ],
  'a moved folder': ['mv /var/lib/dpkg /moved', 'ls /moved/info | wc -l; ls /var/lib/dpkg || echo gone'],
  'owners and modes': [
    'mkdir /o; touch /o/a /o/b; chown 1000:1000 /o/a; chown 65535:7 /o/b; chmod 0641 /o/a; chmod 1777 /o',
    'stat -c "%u %g %a %n" /o /o/a /o/b',
  ],
  times: ['touch -d "2001-02-03 04:05:06.123456789 UTC" /t', 'stat -c %y /t'],
  'a hard link': ['echo one > /h1; ln /h1 /h2', 'test /h1 -ef /h2 && stat -c %h /h1'],
  'a link': ['ln -s ../../../../../../etc/shadow /link', 'readlink /link'],
  'a sparse file': ['truncate -s 40M /hole; echo end >> /hole', 'stat -c "%s" /hole; du -k /hole | cut -f1'],
  'a pipe': ['mkfifo /pipe', 'stat -c %F /pipe'],
  'a name that is no UTF-8': ['touch "/$(printf \'n\\377\\376\')"', 'ls / | grep -a ^n | od -An -tx1'],
  'a deep folder': ['cd /; for i in $(seq 300); do mkdir d; cd -P d; done; echo deep > f', 'find /d -name f | wc -c'],
  'extended attributes': [
    `touch /x; python3 -c "import os; os.setxattr('/x', 'user.a', b'b')"`,
    `python3 -c "import os; print(os.getxattr('/x', 'user.a'))"`,
  ],
} as const;

/** Commands of a hostile root in a sandbox; a check in a sandbox of the captured version; its expected output. */
const ATTACKS = {
  'a device is not made': ['mknod /mem c 1 1; mknod /disk b 7 0', 'ls /mem /disk 2>/dev/null | wc -l', '0'],
  'a whiteout is not made': ['mknod /white c 0 0', 'ls /white 2>/dev/null | wc -l', '0'],
  'an attribute of overlays is not set': [
    `python3 -c "import os; os.mkdir('/r'); os.setxattr('/r', 'trusted.overlay.redirect', b'/etc')"`,
    'ls -A /r | wc -l',
    '0',
  ],
  "a user's attribute of overlays moves nothing": [
    `python3 -c "import os; os.mkdir('/u'); [os.setxattr('/u', 'user.overlay.' + name, value) for name, value in (('redirect', b'/etc'), ('opaque', b'y'))]"`,
    'ls -A /u | wc -l',
    '0',
  ],
  'a set-id program gives no rights': [
    'cp /usr/bin/id /id; chmod 4755 /id',
    'setpriv --reuid 1000 --regid 1000 --clear-groups /id -u',
    '1000',
  ],
  'a link leads to nothing of the host': ['ln -s /proc/1/root/../../../../etc /up', 'ls /up/../usr | head -n 1', 'bin'],
  'a link in place of a folder of hostd is replaced': [
    'mv /tmp /tmp-before; ln -s / /tmp',
    'test -L /tmp || ls -A /tmp | wc -l',
    '0',
  ],
  'a socket stays without a listener': [
    `python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('/sock')"`,
    'stat -c %F /sock',
    'socket',
  ],
} as const;

/** Leaves free parts of many sizes between files of many sizes. */
const SCATTERED = `mkdir /files; cd /files
for i in $(seq 60); do head -c $((i * 7777)) /dev/urandom > f$i; done
for i in $(seq 3); do head -c 7M /dev/urandom > g$i; done
for i in $(seq 1 3 60); do rm f$i; done; head -c 5M /dev/urandom > h
md5sum * > /sums`;

const MANIFEST = { languages: [], env: { FROM_CAPTURE: 'yes' } };

/** Unpacks enough for a shell in `/image`, with links to a folder of the host where hostd mounts. */
const hostileImage = (target: string) => `
mkdir -p /image/usr/bin /image/workspace
for name in sh sleep cat ls stat id; do cp -L /usr/bin/$name /image/usr/bin; ldd /usr/bin/$name; done |
  grep -o '/[^ ]*' | sort -u | while read -r file; do cp -L --parents "$file" /image; done
ln -s usr/bin /image/bin
for name in opt etc tmp; do ln -s ${target} /image/$name; done`;

describe('a captured version', () => {
  const suite = hostdSuite(makeInstallation, IDLE_COMMAND);
  const inside = (id: string, script: string) => runInside(suite.installation.config, id, script);

  const ask = (id: string, changes: object = {}) =>
    suite.hostd.call('POST', `/instances/${id}/1/capture`, {
      root: 'changes',
      purpose: 'version',
      manifest: MANIFEST,
      ...changes,
    });

  async function capture(id: string, changes: object = {}): Promise<CapturedVersion> {
    const { status, body } = await ask(id, changes);
    assert.equal(status, 200, JSON.stringify(body));
    return body;
  }

  /** Launches an instance of a version, or of the newest template. */
  async function launch(id: string, version?: { id: string }, changes: SpecChanges = {}): Promise<void> {
    const spec = await makeSpec(suite.installation.config, changes);
    if (version) spec.source.templateVersionId = version.id;
    const { status, body } = await suite.hostd.launch(id, spec);
    assert.equal(status, 200, JSON.stringify(body));
  }

  const remove = ({ id }: { id: string }) => suite.hostd.call('DELETE', `/captured-versions/${id}?madeAt=${EVER}`);
  const layersOnDisk = () => readdirSync(join(suite.installation.config.hostdDir, 'layers'));

  test('a captured version has what its sandbox changed, as the sandbox had it', async () => {
    // Takes a slot, so that the captured sandbox has other ids than those launched later.
    await launch('sbx_first');
    await launch('sbx_builder');
    const expected: Record<string, string> = {};
    for (const [name, [make, show]] of Object.entries(CHANGES)) {
      await inside('sbx_builder', make);
      expected[name] = (await inside('sbx_builder', show)).stdout;
    }
    for (const [name, output] of Object.entries(expected)) assert.notEqual(output, '', name);
    await suite.hostd.stop('sbx_first');
    const version = await capture('sbx_builder');
    assert.deepEqual(await suite.hostd.list(), []);

    await launch('sbx_made', version);
    const seen: Record<string, string> = {};
    for (const [name, [, show]] of Object.entries(CHANGES)) seen[name] = (await inside('sbx_made', show)).stdout;
    assert.deepEqual(seen, expected);
    assert.match((await inside('sbx_made', 'cat /etc/hosts')).stdout, /sandbox/);
  });

  test('a captured version gives nothing to what a hostile root planted in it', async () => {
    await launch('sbx_hostile');
    for (const [make] of Object.values(ATTACKS)) await inside('sbx_hostile', make);
    await launch('sbx_victim', await capture('sbx_hostile'));
    for (const [name, [, show, expected]] of Object.entries(ATTACKS)) {
      assert.equal((await inside('sbx_victim', show)).stdout.trim(), expected, name);
    }
  });

  test('a captured version of an unpacked image has nothing below it, and its links lead to nothing of the host', async () => {
    const { config } = suite.installation;
    const target = join(config.runDir, 'of-the-host');
    mkdirSync(target);
    await launch('sbx_unpacks');
    await inside('sbx_unpacks', hostileImage(target));
    const version = await capture('sbx_unpacks', { root: 'image' });
    assert.equal(version.base, undefined);

    await launch('sbx_image', version);
    assert.equal((await inside('sbx_image', 'ls -A /tmp; ls /opt; cat /etc/hostname')).stdout, 'cloche\nsandbox\n');
    assert.equal((await inside('sbx_image', 'ls /usr/bin/perl')).exitCode, 2);
    assert.deepEqual(readdirSync(target), []);

    // The folders that the runtimes mount over are not replaced: the runtime refuses what is no folder.
    await launch('sbx_links');
    await inside(
      'sbx_links',
      `${hostileImage(target)}; for name in proc dev sys; do ln -s ${target} /image/$name; done`,
    );
    const spec = await makeSpec(config);
    spec.source.templateVersionId = (await capture('sbx_links', { root: 'image' })).id;
    assert.equal((await suite.hostd.launch('sbx_refused', spec)).body.error.code, 'launch_failed');
    assert.deepEqual(readdirSync(target), []);
  });

  test('a captured version is refused for an image that is a link, or was not made in the sandbox', async () => {
    await launch('sbx_a');
    await inside('sbx_a', 'ln -s /etc /image');
    const answer = await ask('sbx_a', { root: 'image' });
    assert.deepEqual([answer.status, answer.body.error.code], [422, 'capture_refused']);
    assert.deepEqual(await suite.hostd.list(), []);
  });

  test('a captured version is refused for more bytes than allowed, and holes do not count', async () => {
    await launch('sbx_a');
    await inside('sbx_a', 'truncate -s 10G /hole');
    const version = await capture('sbx_a', { maxBytes: 4 * MEBIBYTE });
    assert.ok((version.layers[0]?.bytes ?? 0) < 2 * MEBIBYTE, JSON.stringify(version));

    await launch('sbx_b');
    await inside('sbx_b', 'head -c 8M /dev/urandom > /big');
    const { status, body } = await ask('sbx_b', { maxBytes: 4 * MEBIBYTE });
    assert.deepEqual([status, body.error?.code], [422, 'capture_refused'], JSON.stringify(body));
    assert.deepEqual(await suite.hostd.list(), []);
  });

  test('a captured version has the content of large and of many files, in layers that are file systems without a fault', async () => {
    for (const diskBytes of [64 * MEBIBYTE, 640 * MEBIBYTE]) {
      await launch('sbx_a', undefined, { diskBytes });
      await inside('sbx_a', SCATTERED);
      const version = await capture('sbx_a');
      await launch('sbx_b', version);
      assert.equal((await inside('sbx_b', 'cd /files; md5sum --check --quiet /sums')).exitCode, 0);
      checkLayer(version);
      await suite.hostd.stop('sbx_b');
    }
  });

  function checkLayer(version: CapturedVersion): void {
    const image = join(suite.installation.config.hostdDir, 'layers', version.layers[0]?.digest ?? '', 'disk.img');
    execFileSync('e2fsck', ['-f', '-n', image], { stdio: 'pipe' });
  }

  test('a captured version can be made of two sandboxes at once, and of a sandbox of another captured version', async () => {
    await Promise.all([launch('sbx_a'), launch('sbx_b')]);
    await Promise.all([inside('sbx_a', 'echo a > /a; rm -r /srv'), inside('sbx_b', 'echo b > /b')]);
    const [first] = await Promise.all([capture('sbx_a'), capture('sbx_b')]);
    await launch('sbx_c', first);
    await inside('sbx_c', 'echo c >> /a; mkdir /srv; echo d > /srv/d');
    const second = await capture('sbx_c');
    assert.deepEqual(second.layers.slice(1), first.layers);
    assert.equal(second.base, first.base);
    await launch('sbx_d', second);
    assert.equal((await inside('sbx_d', 'cat /a; ls -A /srv')).stdout, 'a\nc\nd\n');
  });

  test('a captured version is removed with the layers that no other version has, but not while a sandbox runs on it', async () => {
    await launch('sbx_a');
    const first = await capture('sbx_a');
    await launch('sbx_b', first);
    const second = await capture('sbx_b');
    await launch('sbx_c', first);
    assert.equal((await remove(first)).body.error.code, 'version_in_use');
    await suite.hostd.stop('sbx_c');
    assert.equal((await remove(first)).status, 204);
    assert.equal((await remove(first)).status, 204);
    await launch('sbx_d', second);
    await suite.hostd.stop('sbx_d');
    const [ofSecond = '', ofFirst = ''] = second.layers.map(({ digest }) => digest);
    assert.ok(layersOnDisk().includes(ofFirst));
    assert.equal((await remove(second)).status, 204);
    for (const digest of [ofFirst, ofSecond]) assert.ok(!layersOnDisk().includes(digest));
    const spec = await makeSpec(suite.installation.config);
    spec.source.templateVersionId = first.id;
    assert.equal((await suite.hostd.launch('sbx_e', spec)).body.error.code, 'template_not_found');
  });

  test('a captured version has no zygote on the host, also when the version below has one', async () => {
    await launch('sbx_a');
    const version = await capture('sbx_a', { manifest: { languages: ['python'], warm: { imports: ['json'] } } });
    await launch('sbx_b', version);
    const answer = await suite.hostd.call('POST', '/instances/sbx_b/1/kernels', { language: 'python' });
    assert.deepEqual([answer.status, answer.body.error.code], [409, 'kernel_unavailable']);
    assert.match(answer.body.error.message, /no zygote serves/);
  });

  test('a captured version can get another manifest without another layer', async () => {
    await launch('sbx_a');
    const snapshot = await capture('sbx_a', { purpose: 'snapshot' });
    const derive = { from: snapshot.id, purpose: 'version', manifest: { languages: ['python'], env: { A: 'b' } } };
    const { body } = await suite.hostd.call('POST', '/captured-versions', derive);
    assert.notEqual(body.id, snapshot.id);
    assert.deepEqual(body.layers, snapshot.layers);
    assert.deepEqual((await suite.hostd.call('POST', '/captured-versions', derive)).body, body);
  });

  test('a captured version is whole or absent after hostd was killed during its capture', async () => {
    for (const patienceMs of [0, 20, 60, 120, 200, 300]) {
      const known = new Set((await suite.hostd.call('GET', '/captured-versions')).body.versions.map(idOf));
      await launch('sbx_a');
      await inside('sbx_a', 'head -c 40M /dev/urandom > /big; md5sum /big > /sum');
      const asked = ask('sbx_a').catch(() => undefined);
      await delay(patienceMs);
      await suite.hostd.kill();
      await asked;
      suite.hostd = await HostdProcess.start(suite.installation, IDLE_COMMAND);
      await suite.hostd.stop('sbx_a');
      assert.deepEqual(
        layersOnDisk().filter((name) => name.startsWith('draft-')),
        [],
      );
      const { versions } = (await suite.hostd.call('GET', '/captured-versions')).body;
      for (const version of versions) {
        if (known.has(version.id)) continue;
        await launch('sbx_check', version);
        assert.equal((await inside('sbx_check', 'md5sum --check /sum')).exitCode, 0);
        await suite.hostd.stop('sbx_check');
      }
    }
    assert.deepEqual(
      instanceLeftovers(suite.installation.config).filter((each) => !each.startsWith('disk ')),
      [],
    );
  });
});

const idOf = ({ id }: { id: string }) => id;
