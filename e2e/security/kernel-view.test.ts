import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { skipUnless } from '../support/claims.ts';
import { sharedService, type TestService } from '../support/service.ts';
import { asRoot, asUser, attempts, onHost } from './support/attackers.ts';

let service: TestService;
let attacker: string;
let neighbour: string;
before(async () => {
  service = await sharedService();
  attacker = (await service.api.readySandbox()).id;
  neighbour = (await service.api.readySandbox()).id;
});
after(() => service?.close());

/** Runs the code as the user and as root of a sandbox. */
const inside = (code: string) => Promise.all([asUser(service, attacker, code), asRoot(service, attacker, code)]);

describe('/proc and /sys of a sandbox', () => {
  interface Found {
    files: number;
    found: Record<string, string[]>;
  }

  it('/proc and /sys of a sandbox name no folder of the host, no installation and no other sandbox', async () => {
    const patterns = {
      data: basename(service.dataDir),
      run: service.runDir,
      installation: service.installationId,
      neighbour: neighbour,
      instances: 'pool_[0-9a-f]{16}|sbx_[a-z0-9]{20}',
      cache: process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche',
    };
    const given = { patterns, own: service.instanceKey(attacker) };
    const script = attempts('kernel-view', { ...given, folders: ['/sys', '/proc'] });
    const nothing = Object.fromEntries(Object.keys(patterns).map((name) => [name, []]));
    for (const output of await inside(script)) {
      const { files, found }: Found = JSON.parse(output);
      assert.ok(files > 100, `${files} files were read`);
      assert.deepEqual(found, nothing);
    }
    // Outside of a sandbox any user can read where the disks are stored, and what hostd has mounted.
    const folders = ['/sys/devices/virtual/block', `/proc/${service.pid('hostd')}`];
    const { found }: Found = JSON.parse(await onHost('user', attempts('kernel-view', { ...given, folders })));
    assert.ok(found.data?.includes('backing_file') && found.run?.includes('mountinfo'), JSON.stringify(found));
  });

  it(
    '/proc and /sys of a sandbox show no disks and no file systems of the host',
    skipUnless('kernel', 'shared'),
    async () => {
      const places = `/sys/block /sys/class/block /sys/class/bdi /sys/dev/block /sys/devices/virtual/block
      /sys/devices/virtual/bdi /sys/fs/ext4 /sys/module /sys/kernel/notes /sys/class/dmi /proc/fs/ext4 /proc/diskstats
      /proc/partitions /proc/kallsyms /proc/modules /proc/swaps`;
      const look = `
import json, os
def content(path):
    try: return os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(100)
    except OSError: return []
print(json.dumps([path for path in ${JSON.stringify(places)}.split() if content(path)]))`;
      for (const output of await inside(look)) assert.deepEqual(JSON.parse(output), []);
      const outside = JSON.parse(await onHost('user', look));
      assert.ok(
        ['/sys/block', '/sys/fs/ext4', '/proc/diskstats'].every((path) => outside.includes(path)),
        outside,
      );
    },
  );

  it(
    '/proc and /sys of a sandbox show what programs read of processors, memory and networks',
    skipUnless('kernel', 'shared'),
    async () => {
      const paths = `/sys/class/net/lo/mtu /sys/class/net/lo/address /sys/devices/system/cpu/online /proc/stat /proc/vmstat
      /sys/devices/system/node/online /sys/kernel/mm/transparent_hugepage/enabled /proc/self/mountinfo /proc/cgroups`;
      const read = `
import json
print(json.dumps({path: len(open(path).read()) for path in given}))`;
      const given = paths.split(/\s+/).filter((path) => existsSync(path));
      for (const output of await inside(`given = ${JSON.stringify(given)}${read}`)) {
        for (const [path, length] of Object.entries(JSON.parse(output))) assert.notEqual(length, 0, path);
      }
    },
  );
});

describe('a file that every sandbox has', () => {
  const files = JSON.stringify(['/opt/cloche/agent.cjs', '/etc/ssl/certs/ca-certificates.crt', '/usr/bin/python3']);

  it(
    'a file that every sandbox has is locked in one sandbox and free in another',
    skipUnless('kernel', 'shared'),
    async () => {
      const lock = `
import fcntl
held = [open(path) for path in ${files}]
for file in held: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked")`;
      const inProcess = `import subprocess; print(subprocess.run(["python3", "-c", ${JSON.stringify(lock)}]).returncode)`;
      assert.equal((await asUser(service, attacker, lock)).trim(), 'locked');
      assert.equal((await asUser(service, neighbour, lock)).trim(), 'locked');
      // The control: another process of the same sandbox.
      assert.equal((await asUser(service, attacker, inProcess)).trim(), '1');
    },
  );

  it(
    'a file that every sandbox has is watched in one sandbox without a sign of another',
    skipUnless('kernel', 'shared'),
    async () => {
      const watch = `
import ctypes, os, struct
libc = ctypes.CDLL(None)
watcher = libc.inotify_init1(os.O_NONBLOCK)
for path in ${files}: assert libc.inotify_add_watch(watcher, path.encode(), 0x21) >= 0`;
      const read = `for path in ${files}: open(path, "rb").read(1)`;
      const count = `
try: print(len(os.read(watcher, 4096)) // 16)
except BlockingIOError: print(0)`;
      await asUser(service, attacker, watch);
      await asUser(service, neighbour, read);
      assert.equal((await asUser(service, attacker, count)).trim(), '0');
      await asUser(service, attacker, read);
      assert.notEqual((await asUser(service, attacker, count)).trim(), '0');
    },
  );
});
