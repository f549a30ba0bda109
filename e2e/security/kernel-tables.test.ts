import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { skipUnless } from '../support/claims.ts';
import { sharedService, type TestService } from '../support/service.ts';
import { asRoot, asUser, attempts, onHost } from './support/attackers.ts';

/** gVisor's kernel has its own tables: entries of a guest are memory of its sandbox. */
const sharedKernel = skipUnless('kernel', 'shared');

const numberOf = (file: string) => Number(readFileSync(`/proc/sys/${file}`, 'utf8'));
/** More than any table below allows a sandbox. */
const MOST = 20_000;
/** Users that root of a sandbox becomes one after the other, each with the limits of a user. */
const USERS = 4;

interface Table {
  /** Name in `attempts/kernel-tables.py`. */
  name: string;
  /** Returns the share of one user of a sandbox. */
  share: () => number;
  /** Whether the limit is per user, so that root gets it once for each user that it becomes. */
  perUser?: true;
}

const TABLES: readonly Table[] = [
  { name: 'inotify_instance', share: () => numberOf('fs/inotify/max_user_instances') },
  { name: 'queued_signal', share: () => 4096, perUser: true },
  { name: 'posix_timer', share: () => 4096, perUser: true },
  { name: 'message_queue', share: () => 9 },
  { name: 'terminal', share: () => 64 },
];

let service: TestService;
let neighbour: string;
before(async () => {
  service = await sharedService();
  neighbour = (await service.api.readySandbox()).id;
});
after(() => service?.close());

describe('a table of the kernel', sharedKernel, () => {
  for (const { name, share, perUser } of TABLES) {
    it(`${name}: one sandbox takes its share, a neighbour gets its own, and the host still gets one`, async () => {
      const { id: attacker } = await service.api.readySandbox();
      assert.equal(await takeAsUser(attacker, name), share(), 'the attacker');
      if (name === 'inotify_instance') await watchFiles(attacker, 409);
      if (perUser) assert.ok((await takeAsManyUsers(attacker, name)) > 2 * share());
      assert.equal(await takeAsUser(neighbour, name), share(), 'the neighbour');
      assert.equal(await takeOnHost(name), 1, 'the host');
      await asUser(service, neighbour, 'holder.stdin.close(); holder.wait(); None');
      await watchFiles(neighbour);
      await service.api.delete(`/v1/sandboxes/${attacker}`);
    });
  }

  it('tables of the kernel are shared by sandboxes whose user namespaces have one owner (control)', async () => {
    const program = `${DEFINITIONS}\n${attempts('shared-owner')}`;
    const counts: Record<string, Record<'shared' | 'own', [number, number]>> = JSON.parse(
      await onHost('root', program),
    );
    for (const [name, { shared, own }] of Object.entries(counts)) {
      assert.ok(shared[0] > 0 && shared[1] === 0, `${name}: ${shared}`);
      assert.ok(own[0] > 0 && own[1] === own[0], `${name}: ${own}`);
    }
  });
});

describe('locks on files, which no control group counts', sharedKernel, () => {
  const MANY = 400_000;
  const FEW = 5000;

  it('locks on files end the process that takes too many of them, and not those of a neighbour', async () => {
    const { id: attacker } = await service.api.readySandbox();
    assert.equal(await takeAsUser(neighbour, 'file_lock', FEW), FEW);
    const taking = `${DEFINITIONS}\nimport time\ntake("file_lock", ${MANY})\ntime.sleep(60)`;
    const { error } = await service.api.run(attacker, taking, { timeoutMs: 60_000 });
    assert.equal(error?.name, 'KernelDiedError');
    assert.equal((await asUser(service, attacker, 'print("works")')).trim(), 'works');
    assert.equal((await asUser(service, neighbour, 'print(holder.poll())')).trim(), 'None');
    await asUser(service, neighbour, 'holder.stdin.close(); holder.wait(); None');
    await service.api.delete(`/v1/sandboxes/${attacker}`);
  });

  it('locks on files are as many as a process wants outside of a sandbox: the control', async () => {
    const count = await onHost('user', `${DEFINITIONS}\nprint(take("file_lock", 120_000))`);
    assert.equal(Number(count), 120_000);
  });

  it('locks on files are those of a process, as locks of an open file could wait in a socket: these are refused', async () => {
    const code = `
import errno, fcntl, struct, tempfile
lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 1, 0)
for command in (fcntl.F_OFD_SETLK, fcntl.F_OFD_SETLKW, fcntl.F_SETLK):
    try: fcntl.fcntl(tempfile.TemporaryFile(), command, lock); print("done")
    except OSError as error: print(errno.errorcode[error.errno])`;
    assert.deepEqual((await onHost('user', code)).trim().split('\n'), ['done', 'done', 'done']);
    assert.deepEqual((await asUser(service, neighbour, code)).trim().split('\n'), ['EINVAL', 'EINVAL', 'done']);
  });
});

describe('huge pages that the operator has set aside', sharedKernel, () => {
  const POOL = '/proc/sys/vm/nr_hugepages';
  const code = `
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True); libc.mmap.restype = ctypes.c_long
size = 2 << 20
calls = [lambda: libc.mmap(None, size, 3, 0x40022, -1, 0), lambda: libc.memfd_create(b"x", 4), lambda: libc.shmget(0, size, 0o5600)]
print(*["done" if call() != -1 else errno.errorcode[ctypes.get_errno()] for call in calls])
ordinary = [lambda: libc.mmap(None, size, 3, 0x22, -1, 0), lambda: libc.memfd_create(b"x", 0), lambda: libc.shmget(0, size, 0o1600)]
print(*["done" if call() != -1 else errno.errorcode[ctypes.get_errno()] for call in ordinary])`;

  it('huge pages that the operator has set aside are not given to a sandbox, which has ordinary pages', async (t) => {
    const before = readFileSync(POOL, 'utf8');
    t.after(() => writeFileSync(POOL, before));
    writeFileSync(POOL, String(Number(before) + 2));
    const control = await onHost('user', code);
    if (!control.startsWith('done')) t.diagnostic(`no huge pages to be had on this host: ${control}`);
    for (const seen of [await asUser(service, neighbour, code), await asRoot(service, neighbour, code)]) {
      assert.deepEqual(seen.trim().split('\n'), ['ENOMEM ENOMEM ENOMEM', 'done done done']);
    }
  });
});

describe('memory that the kernel compiles filters into, which all of the host share', sharedKernel, () => {
  const script = attempts('compiled-filters');
  type Kinds = Record<'filters' | 'others', Record<string, string>>;
  const namesBy = (outcomes: Record<string, string>, wanted: RegExp) =>
    Object.keys(outcomes).filter((name) => wanted.test(outcomes[name] ?? ''));

  it('memory of compiled filters is taken by any process outside of a sandbox: the control', async () => {
    const { filters }: Kinds = JSON.parse(await onHost('user', script));
    assert.deepEqual(namesBy(filters, /^(?!done$)/), []);
  });

  it('memory of compiled filters is not for code or root of a sandbox, whose other options work', async () => {
    for (const output of [await asUser(service, neighbour, script), await asRoot(service, neighbour, script)]) {
      const { filters, others }: Kinds = JSON.parse(output);
      assert.deepEqual(namesBy(filters, /^(?!(EINVAL|ENOPROTOOPT)$)/), []);
      assert.deepEqual(namesBy(others, /^(?!done$)/), []);
    }
  });
});

const PROGRAM = attempts('kernel-tables');
/** The script without its main block. */
const DEFINITIONS = PROGRAM.slice(0, PROGRAM.indexOf('if __name__'));

/** Returns how many entries a process of the sandbox gets. It holds them until `release`. */
async function takeAsUser(id: string, table: string, most = MOST): Promise<number> {
  const code = `
import subprocess, sys
holder = subprocess.Popen([sys.executable, "-c", ${JSON.stringify(PROGRAM)}, "${table}", "${most}"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(holder.stdout.readline())`;
  return Number(await asUser(service, id, code));
}

/** Returns how many entries root of a sandbox gets as many users. Their processes live as long as the sandbox. */
async function takeAsManyUsers(id: string, table: string): Promise<number> {
  const code = `
import os, subprocess, sys
program = ${JSON.stringify(PROGRAM)}
silent, never = os.pipe()
start = lambda user: subprocess.Popen([sys.executable, "-c", program, "${table}", "${MOST}"], user=user, stdin=silent,
                                      pass_fds=[never], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
holders = [start(2000 + number) for number in range(${USERS})]
print(sum(int(holder.stdout.readline()) for holder in holders))`;
  return Number(await asRoot(service, id, code));
}

async function takeOnHost(table: string): Promise<number> {
  return Number(await onHost('root of the host', `${DEFINITIONS}\nprint(take("${table}", 1))`));
}

/** Watches a folder of the sandbox for a moment. */
async function watchFiles(id: string, expected = 200): Promise<void> {
  const stop = new AbortController();
  const watched = await fetch(`${service.url}/v1/sandboxes/${id}/files/watch?path=/workspace`, {
    headers: { authorization: `Bearer ${service.apiKey}` },
    signal: stop.signal,
  });
  assert.equal(watched.status, expected, 'the watch of its files');
  stop.abort();
}
