import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { chmodSync, copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { isolation, skipUnless } from '../support/claims.ts';
import { sharedService, type TestService } from '../support/service.ts';
import {
  agentPid,
  asRoot,
  asUser,
  attempts,
  execInside,
  type Outcomes,
  onHost,
  outcomesOf,
} from './support/attackers.ts';

let service: TestService;
let sandboxId: string;
let agent: number;
let folder: string;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-attack-'));
  service = await sharedService();
  sandboxId = (await service.api.readySandbox()).id;
  agent = await agentPid(service, sandboxId);
  chmodSync(folder, 0o755);
});
after(async () => {
  rmSync(folder, { recursive: true, force: true });
  await service?.close();
});

/** Attempts that succeed for root of a sandbox, because it controls the sandbox's processes. */
const OWN_AFFAIRS = /process of another user|another user's process|set-user-id bit/;
/** Attempt that succeeds in gVisor, where priorities affect only the sandbox: the host sees one process. */
const PRIORITY = /more of the processor/;
const OWN_AFFAIRS_OF_OWN_KERNEL = new RegExp(`${OWN_AFFAIRS.source}|${PRIORITY.source}`);
const done = (outcomes: Outcomes) => Object.keys(outcomes).filter((name) => outcomes[name] === 'done');

describe("a client's code", () => {
  const fields = `
status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
import json; print(json.dumps({k: status[k].strip() for k in ["Uid", "CapEff", "CapPrm", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp"]}))`;
  const NONE = '0000000000000000';

  it("a client's code has no capability, can gain none, and is filtered", async () => {
    const user = outcomesOf(await asUser(service, sandboxId, fields));
    const none = { CapEff: NONE, CapPrm: NONE, CapInh: NONE, CapAmb: NONE };
    assert.deepEqual(user, { Uid: '1000\t1000\t1000\t1000', ...none, NoNewPrivs: '1', Seccomp: '2' });
    const control = outcomesOf(await onHost('root', fields));
    assert.notEqual(control.CapEff, NONE);
    assert.deepEqual([control.NoNewPrivs, control.Seccomp], ['0', '0']);
  });

  it("a client's code is started by an agent that can gain nothing either", async () => {
    const status = await asRoot(service, sandboxId, `print(open("/proc/${agent}/status").read())`);
    assert.match(status, /^NoNewPrivs:\t1$/m);
    assert.match(status, /^Seccomp:\t2$/m);
    // None of CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_MKNOD, CAP_NET_ADMIN, CAP_NET_RAW, CAP_DAC_READ_SEARCH, CAP_SYS_RESOURCE.
    const effective = BigInt(`0x${/^CapEff:\t(\w+)$/m.exec(status)?.[1]}`);
    for (const capability of [21, 19, 27, 12, 13, 2, 24]) assert.equal((effective >> BigInt(capability)) & 1n, 0n);
  });

  it("a client's code gains no debugger of the agent or of a kernel from a signal of root", async () => {
    // The first debugger takes the port of all. The last process, which has no defence, is the control.
    const signals = `
import os, signal, subprocess, time, urllib.request
program = lambda pid: open(f"/proc/{pid}/cmdline").read().split("\\0")[:3]
ours = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and "/opt/cloche/bin/node" in program(pid)]
for pid in sorted(ours): os.kill(pid, signal.SIGUSR1)
child = subprocess.Popen(["/opt/cloche/bin/node", "-e", "console.log(1); setInterval(() => {}, 1000)"], stdout=subprocess.PIPE)
child.stdout.readline()
os.kill(child.pid, signal.SIGUSR1)
found, deadline = "[]", time.monotonic() + 60
while found == "[]" and time.monotonic() < deadline:
    try: found = urllib.request.urlopen("http://127.0.0.1:9229/json/list", timeout=5).read().decode()
    except OSError: time.sleep(0.01)
exit_code = child.poll()
child.kill()
titles = [each["title"] for each in json.loads(found)]
print(json.dumps([len(ours) >= 2, [title.endswith(f"[{child.pid}]") for title in titles], exit_code, os.path.exists("/proc/${agent}")]))`;
    await service.api.run(sandboxId, '1', { language: 'javascript' });
    const outcome = await asRoot(service, sandboxId, `import json\n${signals}`);
    const expected = [true, [true], null, true];
    assert.deepEqual(JSON.parse(outcome), expected, 'of agent and kernel, debugger and life of the control, the agent');
  });

  it("a client's code gains no rights through programs, devices or other processes, and neither does root", async () => {
    await execInside(service, sandboxId, ['/bin/sh', '-c', 'cp /bin/cat /srv/cat && chmod 4755 /srv/cat']);
    const inside = { folder: '/workspace', setuid: '/srv/cat', inside: true };
    const user = done(outcomesOf(await asUser(service, sandboxId, attempts('privileges', { ...inside, pid: agent }))));
    assert.deepEqual(
      user.filter((name) => isolation.kernel === 'shared' || !PRIORITY.test(name)),
      [],
    );
    // Root of a sandbox controls its processes: only attempts that reach out of the sandbox must be refused.
    const root = outcomesOf(await asRoot(service, sandboxId, attempts('privileges', { ...inside, pid: 1 })));
    const ownAffairs = isolation.kernel === 'own' ? OWN_AFFAIRS_OF_OWN_KERNEL : OWN_AFFAIRS;
    assert.deepEqual(
      done(root).filter((name) => !ownAffairs.test(name)),
      [],
    );
  });

  it("a client's code would gain rights without the defences (control)", async () => {
    const setuid = join(folder, 'cat');
    copyFileSync('/bin/cat', setuid);
    chmodSync(setuid, 0o4755);
    const other = spawn('sleep', ['60']);
    try {
      const outside = { folder, setuid, pid: other.pid, inside: false };
      const root = outcomesOf(await onHost('root of the host', attempts('privileges', outside)));
      assert.deepEqual(done(root), Object.keys(root));
      const user = outcomesOf(await onHost('user', attempts('privileges', { ...outside, folder: '/tmp' })));
      assert.equal(user["become root by a program with root's set-user-id bit"], 'done');
    } finally {
      other.kill('SIGKILL');
    }
  });
});

describe('the settings and the secrets of the kernel', () => {
  const [shared, own] = [skipUnless('kernel', 'shared'), skipUnless('kernel', 'own')];

  it(
    'the settings and the secrets of the kernel cannot be reached by code or root of a sandbox, but by root outside',
    shared,
    async () => {
      const control = outcomesOf(await onHost('root', attempts('kernel-files')));
      const paths = { write: pathsOf(control, 'write'), read: pathsOf(control, 'read') };
      assert.ok(paths.write.length > 8 && paths.read.length > 3, JSON.stringify(paths));
      const script = attempts('kernel-files', { paths });
      assert.deepEqual(done(outcomesOf(await asUser(service, sandboxId, script))), []);
      assert.deepEqual(done(outcomesOf(await asRoot(service, sandboxId, script))), []);
    },
  );

  it(
    'the settings and the secrets of the kernel are those of the sandbox alone where it has a kernel of its own',
    own,
    async () => {
      const settings = ['vm/overcommit_memory', 'net/ipv4/ip_forward', 'kernel/hostname'];
      const read = () => settings.map((name) => readFileSync(`/proc/sys/${name}`, 'utf8'));
      const before = read();
      const write = `
import os
for name in ${JSON.stringify(settings)}:
    try: open("/proc/sys/" + name, "w").write("2")
    except OSError: pass
print(os.uname().release)`;
      assert.notEqual((await asRoot(service, sandboxId, write)).trim(), release());
      assert.deepEqual(read(), before);
    },
  );

  it(
    'the settings and the secrets of the kernel are on file systems mounted read-only, control groups included, or covered',
    shared,
    async () => {
      const mounts = await asRoot(service, sandboxId, 'print(open("/proc/self/mountinfo").read())');
      const writable = effectiveMounts(mounts).filter(({ root, target, options }) => {
        const concerns = /^\/(sys|opt\/cloche|proc\/(sys|irq|bus|fs))(\/|$)/.test(target);
        // A file is covered by the null device, which stores nothing that is written to it.
        return concerns && root !== '/null' && !options.includes('ro');
      });
      assert.deepEqual(
        writable.map(({ target }) => target),
        [],
      );
    },
  );

  function pathsOf(outcomes: Outcomes, kind: string): string[] {
    return done(outcomes)
      .filter((name) => name.startsWith(`${kind} `))
      .map((name) => name.slice(kind.length + 1));
  }
});

/** Returns the mounts in effect: at each path, the one mounted last. */
function effectiveMounts(mountinfo: string) {
  const byTarget = new Map<string, { root: string; target: string; options: string[] }>();
  for (const line of mountinfo.trim().split('\n')) {
    const [, , , root = '', target = '', options = ''] = line.split(' ');
    byTarget.set(target, { root, target, options: options.split(',') });
  }
  return [...byTarget.values()];
}
