import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { skipUnless } from '../support/claims.ts';
import { lentService } from '../support/lent-service.ts';
import { firstKeyOf } from '../support/process.ts';
import type { TestService } from '../support/service.ts';
import { asRoot, asUser, attempts, execInside, onHost } from './support/attackers.ts';

let service: TestService;
let attacker: string;
let neighbour: string;
let folder: string;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-attack-'));
  service = await lentService();
  attacker = (await service.api.readySandbox()).id;
  neighbour = (await service.api.readySandbox()).id;
});
after(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service?.close();
});

interface Surroundings {
  found: Record<string, string[]>;
  files: string[];
  sockets: string[];
  links: Record<string, string>;
  /** Files that any process in the sandbox finds by name. */
  here: string[];
  processes: number;
  hostname: string;
  devices: string[];
  ids: [inside: string, outside: string, count: string];
}

async function look(given: Partial<{ needles: Record<string, string>; files: string[]; sockets: string[] }> = {}) {
  const script = attempts('surroundings', { needles: {}, files: [], sockets: [], ...given });
  const [user, root, control] = await Promise.all([
    asUser(service, attacker, script),
    asRoot(service, attacker, script),
    onHost('root of the host', script),
  ]);
  const parse = (text: string): Surroundings => JSON.parse(text);
  return { inside: [parse(user), parse(root)], control: parse(control) };
}

describe('from inside a sandbox', () => {
  it("one does not see the service's keys and environment", async () => {
    const needles = { key: firstKeyOf(service.pid('server')), setting: 'CLOCHE_DATA_DIR=' };
    const { inside, control } = await look({ needles });
    for (const { found } of inside) assert.deepEqual(found, { key: [], setting: [] });
    assert.deepEqual(control.found, { key: ['environ'], setting: ['environ'] });
  });

  it("one does not see the host's files or sockets", async () => {
    const secret = join(folder, 'secret');
    writeFileSync(secret, 'x');
    const files = [
      secret,
      service.dataDir,
      join(service.runDir, 'hostd/hostd.sock'),
      process.execPath,
      '/run/cloche/slots',
    ];
    const { inside, control } = await look({ files });
    assert.deepEqual(control.files, files);
    for (const { files } of inside) assert.deepEqual(files, []);
  });

  it('one does not reach abstract sockets of the host', async () => {
    const name = `cloche-attack-${process.pid}`;
    const server = createServer((socket) => socket.end()).listen(`\0${name}`);
    await once(server, 'listening');
    try {
      const { inside, control } = await look({ sockets: [name] });
      assert.deepEqual(control.sockets, [name]);
      for (const { sockets } of inside) assert.deepEqual(sockets, []);
    } finally {
      server.close();
    }
  });

  it("one sees one's own processes alone", async () => {
    const marker = '86391.5';
    const ofHost = spawn('sleep', [marker]);
    try {
      await asUser(service, neighbour, `import subprocess; subprocess.Popen(["sleep", "${marker}"]); None`);
      const { inside, control } = await look({ needles: { marker } });
      assert.notDeepEqual(control.found.marker, []);
      for (const { found, processes } of inside) {
        assert.deepEqual(found.marker, []);
        assert.ok(processes < 10, `${processes} processes`);
      }
      const own = JSON.parse(
        await asUser(service, neighbour, attempts('surroundings', { needles: { marker }, files: [], sockets: [] })),
      );
      assert.deepEqual(own.found.marker, ['cmdline']);
    } finally {
      ofHost.kill('SIGKILL');
    }
  });

  it('one has no descriptor, working folder or root of outside', async () => {
    const { inside, control } = await look();
    const own =
      /^(\/|\/workspace|\/sys\/fs\/cgroup\/[\w,/-]+\/(?:kernels|reserve)\/cgroup\.procs|\/dev\/null|\/dev\/pts\/\d+|\/stdin|\/console\.log|\/proc\/\d+\/.*|(pipe|socket):\[\d+\]|anon_inode:.*|host:\[\d+\]|\/dev\/shm\/cloche-\w+\/\d \(deleted\)|\/run\/cloche-kernels\/[\w-]+\.std(out|err) \(deleted\))$/;
    for (const { links, here } of inside) {
      assert.ok(Object.keys(links).length > 5);
      const foreign = Object.entries(links).filter(
        // A program that is still loading has its own files open.
        ([path, target]) => !path.endsWith('/exe') && !own.test(target) && !here.includes(path),
      );
      // The runtime that starts the test as root passes on the test's own pipes, and nothing else.
      assert.deepEqual(foreign, []);
    }
    assert.ok(Object.values(control.links).some((target) => !own.test(target)));
  });

  it('the host name, the devices and the ids are those of a sandbox', skipUnless('kernel', 'shared'), async () => {
    const { inside, control } = await look();
    const minimal = 'fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero'.split(' ');
    for (const { hostname, devices, ids } of inside) {
      assert.equal(hostname, 'sandbox');
      // Crun creates a link to the kernel's memory, which cannot be read through it (container.test.ts).
      assert.deepEqual(
        devices.filter((name) => name !== 'core'),
        minimal,
      );
      assert.ok(Number(ids[1]) >= 0x1000_0000);
    }
    assert.notEqual(control.hostname, 'sandbox');
    assert.equal(control.ids[1], '0');
    assert.ok(control.devices.length > minimal.length);
  });
});

describe('two sandboxes', () => {
  it(
    'two sandboxes share no user id of the host, so neither owns files of the other',
    skipUnless('kernel', 'shared'),
    async () => {
      const map = 'print(open("/proc/self/uid_map").read() + open("/proc/self/gid_map").read())';
      const ranges = await Promise.all(
        [attacker, neighbour].map(async (id) => {
          const [, users, count, , groups] = (await asUser(service, id, map)).trim().split(/\s+/).map(Number);
          assert.equal(users, groups);
          return { from: users ?? 0, to: (users ?? 0) + (count ?? 0) };
        }),
      );
      const [low, high] = ranges.toSorted((a, b) => a.from - b.from);
      assert.ok(low && high && low.to <= high.from, JSON.stringify(ranges));
      assert.ok(low.from > 65_536);
    },
  );
});

describe('what all sandboxes share', () => {
  const programs = ['/usr/bin/python3.11', '/etc/passwd', '/opt/cloche/agent.cjs', '/opt/cloche/bin/node'];
  const digests = `
import hashlib, json
print(json.dumps({p: hashlib.sha256(open(p, "rb").read()).hexdigest() for p in ${JSON.stringify(programs)}}))`;

  it('what all sandboxes share is not changed for the next sandbox by anything that root of one does', async () => {
    const before = await asUser(service, neighbour, digests);
    const overwrite = `
import os, json
outcomes = {}
for path in ${JSON.stringify(programs)}:
    try:
        with open(path + ".new", "w") as file: file.write("evil")
        os.rename(path + ".new", path)
        outcomes[path] = "done"
    except OSError as error: outcomes[path] = os.strerror(error.errno)
print(json.dumps(outcomes))`;
    const doomed = (await service.api.readySandbox()).id;
    const [python = '', passwd = '', agent = '', node = ''] = programs;
    // In its own sandbox the attack works, as far as the files belong to it.
    const readOnly = 'Read-only file system';
    assert.deepEqual(JSON.parse(await asRoot(service, doomed, overwrite)), {
      [python]: 'done',
      [passwd]: 'done',
      [agent]: readOnly,
      [node]: readOnly,
    });
    assert.match((await execInside(service, doomed, ['cat', python])).stdout, /^evil/);
    const next = (await service.api.readySandbox()).id;
    assert.equal(await asUser(service, next, digests), before);
    assert.equal(await asUser(service, neighbour, digests), before);
  });

  it('what all sandboxes share cannot be overwritten through the program of a running process (CVE-2019-5736)', async () => {
    // Each command runs until its standard input ends.
    const attack = (...command: string[]) => `
import os, subprocess
child = subprocess.Popen(${JSON.stringify(command)}, stdin=subprocess.PIPE)
held = os.open(f"/proc/{child.pid}/exe", os.O_PATH)
child.kill(); child.wait()
try: os.close(os.open(f"/proc/self/fd/{held}", os.O_WRONLY)); print("done")
except OSError as error: print(os.strerror(error.errno))`;
    const copy = join(folder, 'cat');
    execFileSync('cp', ['/bin/cat', copy]);
    assert.equal(await onHost('root of the host', attack(copy)), 'done');
    const programs = [
      ['/opt/cloche/bin/node', '-'],
      ['/opt/cloche/bin/tini', '-s', '--', '/bin/cat'],
    ];
    for (const program of programs) {
      assert.match(await asRoot(service, attacker, attack(...program)), /Read-only file system|Permission denied/);
    }
    // The runtime that created the sandbox cannot be reached either: all programs there are from the guest folder or
    // its own files.
    const { inside } = await look();
    const exes = inside.flatMap(({ links }) => Object.entries(links)).filter(([path]) => path.endsWith('/exe'));
    assert.ok(exes.length > 3);
    for (const [, exe] of exes) assert.match(exe, /^\/(opt\/cloche\/bin|usr\/bin)\//);
  });
});

describe('the folder of a context (CVE-2024-21626)', () => {
  const open = (cwd: string) =>
    service.api.post(`/v1/sandboxes/${attacker}/code/contexts`, { language: 'python', cwd });

  it('the directory of a context (CVE-2024-21626) is refused where it leads out of the workspace, by links and descriptors too', async () => {
    await asUser(
      service,
      attacker,
      `
import os
os.makedirs("/workspace/inside", exist_ok=True)
for name, target in {"out": "/", "up": "../etc", "proc": "/proc/1/root", "self": "/proc/self/fd/3", "in": "inside"}.items():
    os.symlink(target, f"/workspace/{name}")`,
    );
    const ways = ['out', 'up', 'proc', 'self', 'in/../../etc', 'out/workspace/../etc'].map(
      (name) => `/workspace/${name}`,
    );
    for (const cwd of [...ways, '/', '/etc', '/proc/self/fd/7', '/proc/self/fd/7/../../..', '/proc/1/root', '../etc']) {
      const { status, body } = await open(cwd);
      assert.deepEqual([status, body.error?.code], [400, 'invalid_request'], cwd);
    }
    const control = await open('/workspace/in');
    assert.equal(control.status, 201);
    await service.api.delete(`/v1/sandboxes/${attacker}/code/contexts/${control.body.context.id}`);
  });
});
