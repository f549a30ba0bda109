import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { runInside } from '../../testing/inside.ts';
import { makeInstallation } from '../../testing/installation.ts';
import { ok, sandboxOf } from '../../testing/kept-sandbox.ts';
import { readConfig } from '../host/config.ts';

/** What a hostile root does before its disk is kept; a check after the launch; what it prints. */
const ATTACKS: Readonly<Record<string, readonly [make: string, show: string, expected: string]>> = {
  'a link to a folder of the host in place of /tmp': [
    'mv /tmp /tmp-before; ln -s / /tmp',
    'test -L /tmp || ls -A /tmp | grep -c etc',
    '0',
  ],
  'a file in place of /tmp': ['mv /tmp /tmp-file-before; echo x > /tmp', 'stat -c "%F %a %u" /tmp', 'directory 1777 0'],
  'a folder of hostd that is moved away': [
    'mv /opt /opt-before; mkdir /opt; chmod 700 /opt',
    'test -d /opt/cloche && stat -c %a /opt',
    '700',
  ],
  'a link in place of resolv.conf': [
    'rm -f /etc/resolv.conf; ln -s CANARY/resolv.conf /etc/resolv.conf',
    'readlink /etc/resolv.conf',
    'CANARY/resolv.conf',
  ],
  'a pipe in place of resolv.conf': [
    'rm -f /etc/resolv.conf; mkfifo /etc/resolv.conf',
    'stat -c %F /etc/resolv.conf',
    'fifo',
  ],
  'a removed resolv.conf': ['rm -f /etc/resolv.conf', 'ls /etc/resolv.conf 2>/dev/null || echo gone', 'gone'],
  'a changed resolv.conf': [
    'rm -f /etc/resolv.conf; echo mine > /etc/resolv.conf',
    'head -n 1 /etc/resolv.conf',
    'nameserver 127.0.0.1',
  ],
  'a closed root folder': ['chmod 700 /', 'stat -c %a /', '700'],
  'many files of shared memory': [
    'mkdir -p /dev/shm/a/b; ln -s / /dev/shm/up; for i in $(seq 300); do echo x > /dev/shm/a/b/$i; done',
    'ls -A /dev/shm | wc -l; test -d /etc && echo there',
    '0\nthere',
  ],
  'a file of root, by a user who would be the root of the host': [
    'echo x > /root-file; chmod 600 /root-file',
    'stat -c "%u %a" /root-file; setpriv --reuid 65535 --clear-groups cat /root-file 2>/dev/null || echo refused',
    '0 600\nrefused',
  ],
  'files of an owner that the sandbox does not have': [
    'chown 65536 /opt-x 2>/dev/null; echo tried',
    'cat /proc/self/uid_map | wc -l; grep -c " / .*idmapped" /proc/self/mountinfo; true',
    '1\n0',
  ],
};

/** Attacks on what gVisor takes from the host by its path. */
const ON_PATHS = ['a link to a folder of the host in place of /tmp', 'a file in place of /tmp'];

for (const [ociRuntime, names] of [
  ['crun', Object.keys(ATTACKS)],
  ['runsc', ON_PATHS],
] as const) {
  test(`what a hostile root has put on its kept disk gives it nothing in the next instance, of ${ociRuntime}`, async () => {
    using installation = makeInstallation();
    const canary = join(dirname(installation.config.hostdDir), 'canary');
    mkdirSync(canary);
    for (const name of ['resolv.conf', 'hosts']) writeFileSync(join(canary, name), 'host');
    const attacks = names.map((name, index) => {
      const [make = '', show = '', expected = ''] = (ATTACKS[name] ?? []).map((text) =>
        text.replaceAll('CANARY', canary),
      );
      return { name, make, show, expected, sandbox: sandboxOf(installation, `sbx_${index}`) };
    });
    await using before = await HostdProcess.start(installation);
    for (const { name, make, sandbox } of attacks) {
      ok(await sandbox.launch(before, 1));
      await sandbox.inside(make);
      ok(await sandbox.park(before, 1));
      assert.ok(name);
    }
    await before.close();

    const environment = { ...installation.environment, CLOCHE_OCI_RUNTIME: ociRuntime };
    const next = { ...installation, environment, config: readConfig(environment) };
    await using after = await HostdProcess.start(next);
    for (const { name, show, expected, sandbox } of attacks) {
      ok(await sandbox.launch(after, 2, 1));
      const { stdout } = await runInside(next.config, sandbox.id, show);
      assert.equal(stdout.trim(), expected, name);
      await sandbox.stop(after, 2);
    }
    for (const name of ['resolv.conf', 'hosts']) assert.equal(readFileSync(join(canary, name), 'utf8'), 'host');
    assert.deepEqual(readdirSync(canary).sort(), ['hosts', 'resolv.conf']);
  });
}
