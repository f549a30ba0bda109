import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { execa } from 'execa';
import { isolation, skipUnless } from '../support/claims.ts';
import { sharedService, type TestService } from '../support/service.ts';
import { asRoot, asUser, attempts, type Outcomes, onHost, outcomesOf } from './support/attackers.ts';

/** Outcomes on a kernel that was built without the call. */
const UNKNOWN_HERE = /^(ENOSYS|EAFNOSUPPORT|killed by SIGSEGV)$/;

/** Returns whether the filter refused the call, without a look at its arguments. */
function isRefused([name, outcome]: [string, string]): boolean {
  // When this call does not exist, libraries use `clone`, whose flags the filter checks.
  if (name === 'clone3') return outcome === 'ENOSYS';
  // Libraries use threads instead; the kernel itself would return EAGAIN or success.
  if (name === 'io_setup') return outcome === 'ENOSYS';
  // gVisor's kernel does not have this interface at all.
  if (name === 'a call of the 32-bit interface' && outcome === 'ENOSYS') return isolation.kernel === 'own';
  return outcome === 'EPERM' || outcome === 'killed by SIGSYS';
}

const script = attempts('syscalls');

describe('system calls that attack kernels', { skip: process.arch !== 'x64' && 'numbers are those of x64' }, () => {
  let service: TestService;
  let sandboxId: string;
  before(async () => {
    service = await sharedService();
    sandboxId = (await service.api.readySandbox()).id;
  });
  after(() => service?.close());

  it('system calls that attack kernels succeed outside of a sandbox (control)', async (t) => {
    const outcomes = Object.entries(outcomesOf(await onHost('root', script)));
    const unknown = outcomes.filter(([name, outcome]) => name !== 'clone3' && UNKNOWN_HERE.test(outcome));
    if (unknown.length > 0) t.diagnostic(`this kernel has none of: ${unknown.map(([name]) => name).join(', ')}`);
    assert.deepEqual(
      outcomes.filter(([, outcome]) => outcome === 'EPERM'),
      [],
    );
    assert.ok(outcomes.length - unknown.length > 40);
  });

  it('system calls that attack kernels are allowed in part even to an unprivileged user outside of a sandbox (control)', async () => {
    const outcomes = outcomesOf(await onHost('user', script));
    for (const name of ['unshare a user namespace', 'keyctl', 'add_key']) assert.equal(outcomes[name], 'done', name);
  });

  it("system calls that attack kernels are refused to a client's code, each of them", async () => {
    assert.deepEqual(unrefused(outcomesOf(await asUser(service, sandboxId, script))), []);
  });

  it('system calls that attack kernels are refused to the root of a sandbox, each of them', async () => {
    assert.deepEqual(unrefused(outcomesOf(await asRoot(service, sandboxId, script))), []);
  });

  it('the filter permits the system calls that programs make sockets with', async () => {
    const makeSockets = `
import socket
sockets = {
    "TCP": lambda: socket.socket(),
    "TCP by number": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK, socket.IPPROTO_TCP),
    "UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "UDP by number": lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_UDP),
    "ICMP echo": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP),
    "ICMPv6 echo": lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, socket.IPPROTO_ICMPV6),
    "names of interfaces": lambda: socket.if_nameindex(),
    "device events": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15),
    **{f"a pair of type {kind}": lambda kind=kind: socket.socketpair(socket.AF_UNIX, kind) for kind in (1, 2, 5)},
    ${isolation.kernel === 'own' ? '' : '"statistics": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4),'}
}
def outcome(make):
    try: make(); return "done"
    except OSError as error: return str(error)
import json
print(json.dumps({name: outcome(make) for name, make in sockets.items()}))`;
    for (const outcomes of [
      outcomesOf(await asUser(service, sandboxId, makeSockets)),
      outcomesOf(await asRoot(service, sandboxId, makeSockets)),
    ]) {
      const failed = Object.entries(outcomes).filter(([, outcome]) => outcome !== 'done');
      assert.deepEqual(failed, []);
    }
  });

  it("a sync by a sandbox writes none of the host's file systems", skipUnless('kernel', 'shared'), async (t) => {
    const file = join(service.dataDir, 'unwritten');
    const dirtyPages = async () => Number(await onHost('root of the host', dirtyPagesOf(file)));
    writeFileSync(file, Buffer.alloc(4 * 1024 * 1024, 1));
    try {
      if ((await dirtyPages()) === 0) return t.skip('this kernel does not count the dirty pages of a file');
      const sync = 'import os; os.sync(); print("done")';
      assert.equal((await asUser(service, sandboxId, sync)).trim(), 'done');
      assert.equal((await asRoot(service, sandboxId, sync)).trim(), 'done');
      assert.notEqual(await dirtyPages(), 0);
      await execa('sync', ['--file-system', file]);
      assert.equal(await dirtyPages(), 0);
    } finally {
      rmSync(file);
    }
  });
});

/**
 * Prints how many pages of the file the kernel has not written out yet; 0 where the kernel does not report it (before
 * Linux 6.5).
 */
function dirtyPagesOf(file: string): string {
  return `
import ctypes, os
fd, all, counts = os.open(${JSON.stringify(file)}, os.O_RDONLY), (ctypes.c_uint64 * 2)(), (ctypes.c_uint64 * 5)()
ctypes.CDLL(None).syscall(451, fd, all, counts, 0)
print(counts[1])`;
}

function unrefused(outcomes: Outcomes): [string, string][] {
  assert.ok(Object.keys(outcomes).length > 50);
  return Object.entries(outcomes).filter((entry) => !isRefused(entry));
}
