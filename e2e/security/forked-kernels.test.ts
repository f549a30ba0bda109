import assert from 'node:assert/strict';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { skipUnless, unlessStarted } from '../support/claims.ts';
import { forkedContext, openContext, startedContext, zygotePids } from '../support/forked-kernels.ts';
import { lentService } from '../support/lent-service.ts';
import { firstKeyOf } from '../support/process.ts';
import type { LentService } from '../support/service.ts';
import { asRoot } from './support/attackers.ts';

const forkedIn = skipUnless('pythonKernels', 'forked');

let service: LentService;
let sandboxId: string;
let forked: string;
before(async () => {
  if (unlessStarted.skip) return;
  service = await lentService();
  sandboxId = (await service.api.readySandbox()).id;
  forked = await forkedContext(service, sandboxId);
});
after(() => service?.close());

async function output(contextId: string, code: string, id = sandboxId): Promise<string> {
  const run = await service.api.run(id, code, { contextId });
  assert.equal(run.error, undefined, `${run.error?.message}`);
  return run.stdout;
}

/** Prints everything that the host's kernel reports about a process's rights and namespaces. */
const RIGHTS = `
import json, os, stat, time
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
names = ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Umask",
         "SigBlk", "SigIgn", "SigCgt", "NStgid", "TracerPid", "Cpus_allowed", "Speculation_Store_Bypass"]
rights = {name: status[name].strip() for name in names if name in status and name != "NStgid"}
rights["levels of process ids"] = len(status.get("NStgid", "").split())
rights["namespaces"] = {name: os.readlink(f"/proc/self/ns/{name}") for name in sorted(os.listdir("/proc/self/ns"))}
rights["limits"] = open("/proc/self/limits").read()
rights["groups"] = open("/proc/self/cgroup").read()
# Once it counts as busy: the mark is not there from the first moment on.
deadline = time.monotonic() + 10
while (score := open("/proc/self/oom_score_adj").read()) != "1000\\n" and time.monotonic() < deadline: time.sleep(0.01)
rights["oom"] = score
rights["leads its session"] = os.getsid(0) == os.getpid() == os.getpgid(0)
rights["priority"] = [os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)]
rights["root"] = [os.readlink("/proc/self/root"), os.readlink("/proc/self/cwd")]
rights["owner of its files in /proc"] = os.stat("/proc/self/environ").st_uid
numbers = [int(fd) for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")]
kind = lambda fd: stat.S_IFMT(os.stat(f"/proc/self/fd/{fd}").st_mode)
rights["descriptors"] = sorted([fd, kind(fd)] for fd in numbers)
rights["standard output"] = [oct(os.stat(f"/proc/self/fd/{fd}").st_mode) + str(os.stat(f"/proc/self/fd/{fd}").st_uid) for fd in (1, 2)]
print(json.dumps(rights))
`;

describe('a kernel that was forked into its sandbox', unlessStarted, () => {
  it('a kernel that was forked into its sandbox has the rights, limits, namespaces and descriptors of one that was started there, and no others', async () => {
    const { id } = await service.api.readySandbox();
    const itsForked = await forkedContext(service, id);
    const started = await startedContext(service, id);
    const [ofForked, ofStarted] = [await output(itsForked, RIGHTS, id), await output(started, RIGHTS, id)];
    assert.deepEqual(JSON.parse(ofForked), JSON.parse(ofStarted));
    assert.equal(JSON.parse(ofForked).oom, '1000\n');
  });

  it('a kernel that was forked into its sandbox finds the name of the sandbox, also where a loaded module keeps it', async () => {
    const names = 'import os, platform, socket; print(platform.node(), os.uname().nodename, socket.gethostname())';
    assert.equal(await output(forked, names), 'sandbox sandbox sandbox\n');
    assert.notEqual(hostname(), 'sandbox');
  });

  it(
    'a kernel that was forked into its sandbox shows nothing of the host in its environment, command line and memory',
    forkedIn,
    async () => {
      const secrets = [firstKeyOf(service.pid('server')), service.dataDir, service.runDir, process.cwd()];
      const halvesOf = (text: string) => [text.slice(0, text.length / 2), text.slice(text.length / 2)];
      const search = (sought: string[]) => `
import json
halves = json.loads(${JSON.stringify(JSON.stringify(sought.map(halvesOf)))})
found = set()
with open("/proc/self/mem", "rb", 0) as memory:
    for line in open("/proc/self/maps"):
        area, access, *_, name = line.split(None, 5) if line.count(" ") > 4 else [*line.split(), ""]
        if "r" not in access or "[v" in name: continue
        start, end = (int(part, 16) for part in area.split("-"))
        memory.seek(start)
        content = memory.read(end - start)
        for number, (head, tail) in enumerate(halves):
            at = content.find(head.encode())
            while at >= 0:
                begin = at + len(head)
                # Nowhere but where it is looked for are both halves in one piece.
                if content[begin:begin + len(tail)] == tail.encode(): found.add(number)
                at = content.find(head.encode(), begin)
print(sorted(found))
`;
      assert.equal(await output(forked, search(secrets)), '[]\n');
      assert.equal(
        await output(forked, search(['/usr/lib/python3.11/site.py'])),
        '[0]\n',
        'the search finds what is there',
      );
      const environment = await output(
        forked,
        'print(open("/proc/self/environ").read(), open("/proc/self/cmdline").read())',
      );
      for (const secret of secrets) assert.ok(!environment.includes(secret));
    },
  );

  it(
    'a kernel that was forked into its sandbox cannot write the program and the libraries that it shares with others, and neither can root',
    forkedIn,
    async () => {
      const attempt = (pid: string) => `
import errno, glob, os
def outcome(path, flags):
    try:
        os.close(os.open(path, flags))
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]
print({outcome(path, flags) for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC)
       for path in ["/proc/${pid}/exe", *glob.glob("/proc/${pid}/map_files/*")[:50], "/proc/${pid}/root/../usr/bin/python3"]
       if flags & 3 or "root" not in path})
`;
      const pid = (await output(forked, 'import os; print(os.getpid())')).trim();
      for (const result of [await output(forked, attempt('self')), await asRoot(service, sandboxId, attempt(pid))]) {
        assert.ok(!result.includes('done'), result);
      }
    },
  );

  it('a kernel that was forked into its sandbox shares no randomness and no names with others of the same zygote', async () => {
    const other = (await service.api.readySandbox()).id;
    const theirs = await forkedContext(service, other);
    const code = `
import json, random, secrets, ssl, tempfile, uuid, multiprocessing, numpy
print(json.dumps({
    "random": random.random(), "secrets": secrets.token_hex(), "ssl": ssl.RAND_bytes(16).hex(),
    "numpy": numpy.random.random(), "numpy generator": numpy.random.default_rng().random(),
    "uuid1": str(uuid.uuid1()), "uuid4": str(uuid.uuid4()), "temporary": tempfile.mktemp(),
    "key": bytes(multiprocessing.current_process().authkey).hex(),
}))`;
    const values = [
      await output(forked, code),
      await output(await forkedContext(service, sandboxId), code),
      await output(theirs, code, other),
    ].map((text) => JSON.parse(text) as Record<string, unknown>);
    for (const name of Object.keys(values[0] ?? {})) {
      assert.equal(new Set(values.map((value) => value[name])).size, values.length, name);
    }
  });

  it(
    'a kernel that was forked into its sandbox cannot be looked into or stopped by root of the sandbox before it has the rights of its user',
    forkedIn,
    async () => {
      const watch = asRoot(
        service,
        sandboxId,
        `
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
known, looked_into, met = set(os.listdir("/proc")), [], 0
end = time.monotonic() + 4
while time.monotonic() < end:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if pid in known: continue
        try:
            owner = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            continue
        if owner in (0, 1000):
            # The agent's own child, or a kernel that has arrived.
            known.add(pid)
            continue
        met += 1
        for attack in ("mem", "environ", "fd/3", "exe", "cwd"):
            try:
                os.close(os.open(f"/proc/{pid}/{attack}", os.O_RDONLY | os.O_NONBLOCK))
                if os.stat(f"/proc/{pid}").st_uid != 1000: looked_into.append(attack)
            except OSError:
                pass
        if libc.ptrace(0x4206, int(pid), None, None) == 0: looked_into.append("ptrace")
print(met, looked_into)
`,
      );
      const contexts: string[] = [];
      for (let count = 0; count < 20; count++) contexts.push(await openContext(service, sandboxId));
      const [met = '', ...lookedInto] = (await watch).trim().split(' ');
      assert.ok(Number(met) > 0, 'no kernel was met on its way');
      assert.equal(lookedInto.join(' '), '[]');
      for (const id of contexts) await service.api.delete(`/v1/sandboxes/${sandboxId}/code/contexts/${id}`);
    },
  );

  it('a kernel that was forked into its sandbox leaves no process behind when its context is deleted, or when it ends by itself', async () => {
    const processes = async () =>
      (await output(forked, 'import os; print(*filter(str.isdigit, os.listdir("/proc")))')).trim().split(' ');
    const deleted = await forkedContext(service, sandboxId);
    const start =
      'import os, subprocess; started = [subprocess.Popen([*it, "sleep", "600"]).pid for it in ([], ["setsid"])]';
    const its = (await output(deleted, `${start}; print(os.getpid(), *started)`)).trim().split(' ');
    const died = await forkedContext(service, sandboxId);
    its.push((await output(died, 'import os; print(os.getpid())')).trim());
    const before = await processes();
    assert.ok(its.length === 4 && its.every((pid) => before.includes(pid)));
    await service.api.delete(`/v1/sandboxes/${sandboxId}/code/contexts/${deleted}`);
    const last = await service.api.run(sandboxId, 'os.kill(os.getpid(), 9)', { contextId: died });
    assert.equal(last.error?.name, 'KernelDiedError');
    await service.api.delete(`/v1/sandboxes/${sandboxId}/code/contexts/${died}`);
    await eventually(async () => {
      const left = await processes();
      return !its.some((pid) => left.includes(pid));
    });
  });
});

describe('the zygote', forkedIn, () => {
  it('the zygote has one capability, no files of the host but the template, no network, and a filter of system calls', () => {
    const [pid = 0] = zygotePids(service);
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const value = (name: string) => new RegExp(`^${name}:\\s*(.*)$`, 'm').exec(status)?.[1];
    for (const set of ['CapPrm', 'CapEff', 'CapBnd'])
      assert.equal(value(set), (1n << 21n).toString(16).padStart(16, '0'));
    for (const set of ['CapInh', 'CapAmb']) assert.equal(value(set), '0'.repeat(16));
    assert.deepEqual([value('NoNewPrivs'), value('Seccomp')], ['1', '2']);
    for (const name of ['mnt', 'net', 'ipc', 'uts']) {
      assert.notEqual(readlinkSync(`/proc/${pid}/ns/${name}`), readlinkSync(`/proc/self/ns/${name}`), name);
    }
    const mounts = readFileSync(`/proc/${pid}/mounts`, 'utf8').trim().split('\n');
    assert.deepEqual(
      mounts.map((line) => line.split(' ')[1]),
      ['/', '/opt/cloche', '/tmp', '/home/user'],
    );
    for (const line of mounts.filter((mount) => !mount.startsWith('tmpfs'))) assert.match(line, / ro[, ]/);
    assert.deepEqual(Object.keys(readLinks(pid)), ['lo']);
  });

  it('a zygote that does not answer keeps no sandbox from being destroyed, and no context from being opened', async () => {
    const { id } = await service.api.readySandbox();
    const contextId = await forkedContext(service, id);
    const [pid = 0] = zygotePids(service);
    process.kill(pid, 'SIGSTOP');
    try {
      await openContext(service, id);
      await output(contextId, '1', id);
      assert.equal((await service.api.delete(`/v1/sandboxes/${id}`)).status, 200);
      await eventually(() => !readdirSync('/run/cloche').includes(id));
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  });

  it('ends with hostd, however that ends; its kernels live on, and the next hostd has another', async () => {
    await output(forked, 'kept = 7');
    const before = zygotePids(service);
    await service.kill('hostd');
    await eventually(() => before.every((pid) => !isAlive(pid)));
    await service.restart('hostd');
    assert.equal((await output(forked, 'print(kept)')).trim(), '7');
    const { id } = await service.api.readySandbox();
    assert.ok(await forkedContext(service, id));
  });
});

function readLinks(pid: number): Record<string, true> {
  const lines = readFileSync(`/proc/${pid}/net/dev`, 'utf8').trim().split('\n').slice(2);
  return Object.fromEntries(lines.map((line) => [line.split(':')[0]?.trim() ?? '', true]));
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s*Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
