import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { skipUnless } from '../support/claims.ts';
import { sharedService, type TestService } from '../support/service.ts';

const PIDS = 64;
const LANGUAGES = ['python', 'javascript', 'typescript'];

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

const contexts = (id: string) => `/v1/sandboxes/${id}/code/contexts`;
async function open(id: string, language: string): Promise<string> {
  return (await service.api.post(contexts(id), { language })).body.context.id;
}
const start = (id: string) => service.api.post(`/v1/sandboxes/${id}/commands`, { command: ['true'] });

// gVisor counts processes by user, and a kernel that cannot create one ends.
describe('a sandbox that has no process left', skipUnless('kernel', 'shared'), () => {
  let id: string;
  let holder: string;
  let dying: string;
  before(async () => {
    ({ id } = await service.api.readySandbox({ resources: { pids: PIDS } }));
    [holder, dying] = [await open(id, 'python'), await open(id, 'python')] as [string, string];
    const { stdout } = await service.api.run(id, HOLD, { contextId: holder });
    assert.match(stdout, /Resource temporarily unavailable/);
  });

  const HOLD = `
import subprocess
held = []
try:
    while True: held.append(subprocess.Popen(["sleep", "600"]))
except OSError as error: print(error)`;

  for (const language of LANGUAGES) {
    it(`a sandbox that has no process left opens no context of ${language}, and says that the processes are used up`, async () => {
      const { status, body } = await service.api.post(contexts(id), { language });
      assert.deepEqual([status, body.error?.code], [429, 'quota_exceeded']);
      assert.deepEqual(body.error.details, { quota: 'resources.pids', limit: PIDS, used: PIDS });
      assert.match(body.error.message, /resources\.pids is 64.* end some/);
    });
  }

  it('a sandbox that has no process left starts no command, and says why', async () => {
    const { body } = await start(id);
    assert.deepEqual([body.command.status, body.command.exitCode], ['failed', 126]);
    assert.match(body.command.stderr, /^true: .*resources\.pids.*\n$/);
  });

  it('a sandbox that has no process left gives a context whose kernel has died no other kernel, by a named error without a traceback of the service', async () => {
    // The kernel that ends frees room for one process, which the other context takes.
    await service.api.run(id, 'import os; os._exit(1)', { contextId: dying });
    await service.api.run(id, 'held.append(subprocess.Popen(["sleep", "600"]))', { contextId: holder });
    const { error, stderr } = await service.api.run(id, '1 + 1', { contextId: dying });
    assert.deepEqual([error?.name, stderr], ['ProcessLimitError', '']);
    assert.match(error?.message ?? '', /resources\.pids/);
  });

  it('a sandbox that has no process left keeps the context that holds the processes, with its variables', async () => {
    const { stdout } = await service.api.run(id, 'print(all(p.poll() is None for p in held))', { contextId: holder });
    assert.equal(stdout, 'True\n');
    await service.api.run(id, 'for p in held: p.kill(); p.wait()', { contextId: holder });
    assert.equal((await service.api.run(id, 'print(1)', { contextId: dying })).stdout, '1\n');
  });
});

describe('a sandbox with few processes left', skipUnless('kernel', 'shared'), () => {
  /** More than any language needs until it is ready. */
  const AMPLE = 12;
  const PROMPT_MS = 10_000;
  let id: string;
  let holder: string;
  before(async () => {
    ({ id } = await service.api.readySandbox({ resources: { pids: PIDS } }));
    holder = await open(id, 'python');
    await service.api.run(id, 'import subprocess\nheld = []', { contextId: holder });
  });

  /** Leaves that many processes, and none is started ahead because more than half are held. */
  async function leave(free: number): Promise<void> {
    const code = `
try:
    while True: held.append(subprocess.Popen(["sleep", "600"]))
except OSError: pass
for _ in range(${free}):
    process = held.pop()
    process.kill(); process.wait()`;
    assert.equal((await service.api.run(id, code, { contextId: holder })).error, undefined);
  }

  for (const language of ['python', 'javascript']) {
    it(`a sandbox with few processes left opens a context of ${language} or soon says why not`, async (t) => {
      const seen: string[] = [];
      for (let free = 1; free <= AMPLE; free += 1) {
        await leave(free);
        const from = performance.now();
        const { status, body } = await service.api.post(contexts(id), { language });
        const tookMs = performance.now() - from;
        seen.push(`${free} left: ${status} ${body.error?.code ?? ''} ${tookMs.toFixed(0)} ms`);
        if (status === 201) await service.api.delete(`${contexts(id)}/${body.context.id}`);
        else assert.deepEqual([status, body.error?.code], [429, 'quota_exceeded'], seen.join('; '));
        assert.ok(tookMs < PROMPT_MS, seen.join('; '));
      }
      t.diagnostic(seen.join('; '));
      assert.match(seen.at(-1) ?? '', / 201 /);
    });
  }

  it('a sandbox with few processes left runs a command or says why not', async (t) => {
    const seen: string[] = [];
    for (let free = 1; free <= 4; free += 1) {
      await leave(free);
      const { body } = await start(id);
      seen.push(`${body.command.status} ${body.command.exitCode}`);
      if (body.command.status === 'failed') assert.match(body.command.stderr, /^true: .*resources\.pids.*\n$/);
    }
    t.diagnostic(seen.join('; '));
    for (const end of seen) assert.match(end, /^(failed 126|exited 0)$/);
    assert.equal(seen.at(-1), 'exited 0');
  });

  it('a sandbox with few processes left keeps those that hold the others', async () => {
    const { stdout } = await service.api.run(id, 'print(all(p.poll() is None for p in held))', { contextId: holder });
    assert.equal(stdout, 'True\n');
  });
});

describe('a sandbox that uses more than half of its processes', skipUnless('kernel', 'shared'), () => {
  it('a sandbox that uses more than half of its processes keeps its commands, and what they started in sessions of their own, when a context ends', async () => {
    const { id } = await service.api.readySandbox({ resources: { pids: PIDS } });
    const many = `for n in $(seq ${PIDS / 2}); do setsid sleep 600 & done; wait`;
    const commands = `/v1/sandboxes/${id}/commands`;
    const { body } = await service.api.post(commands, { command: ['bash', '-c', many], background: true });
    const count = `
import glob, os
def programs():
    for file in glob.glob("/proc/[0-9]*/cmdline"):
        try: yield open(file).read()
        except OSError: pass
print(sum(program.startswith("sleep") for program in programs()))`;
    const sleeping = async () => Number((await service.api.run(id, count)).stdout);
    await eventually(async () => (await sleeping()) === PIDS / 2);
    const context = await open(id, 'python');
    await service.api.delete(`${contexts(id)}/${context}`);
    assert.equal(await sleeping(), PIDS / 2);
    const { command: after } = (await service.api.get(`${commands}/${body.command.id}`)).body;
    assert.equal(after.status, 'running');
  });
});

/** Takes all processes of its sandbox, again and again, in a session that belongs to no run. */
const FILL = `
import os, time
def fork():
    # Processes that were killed before count until they have exited.
    while True:
        try: return os.fork()
        except OSError: time.sleep(0.01)
if fork() == 0:
    os.setsid()
    with open("/workspace/leader", "w") as file: file.write(str(os.getpid()))
    def take():
        while True:
            try:
                if os.fork() == 0:
                    time.sleep(600); os._exit(0)
            except OSError:
                open("/workspace/full", "w").close()
                time.sleep(0.002)
    take()
while not os.path.exists("/workspace/full"): time.sleep(0.01)
print(open("/workspace/leader").read())`;

/** Commands that end what FILL has started, whose leader's id is PID. */
const ENDS: Record<string, { command: string | string[]; user?: 'root' }> = {
  'kill of a group': { command: ['kill', '-9', '--', '-PID'] },
  'kill of a group as a shell line': { command: ['bash', '-lc', 'kill -9 -- -PID'] },
  'kill by the name of the signal': { command: ['/bin/kill', '-s', 'KILL', '-PID'] },
  'kill of all processes': { command: ['kill', '-9', '-1'] },
  'kill of a group by root': { command: ['kill', '-9', '--', '-PID'], user: 'root' },
  'a shell line of root that starts a program': {
    command: ['bash', '-c', 'kill -9 $(pgrep -g PID)'],
    user: 'root',
  },
  'a program of root': { command: ['pkill', '-9', '-g', 'PID'], user: 'root' },
};

/** Commands for which there is no reserve: each could run a program of the user. */
const REFUSED = [['true'], ['pkill', '-9', '-u', 'user'], ['bash', '-lc', 'kill -9 -- -PID; true'], ['./kill', 'PID']];

describe('a program that has taken all processes of a sandbox', skipUnless('kernel', 'shared'), () => {
  let id: string;
  before(async () => {
    ({ id } = await service.api.readySandbox({ resources: { pids: 32 } }));
  });

  async function fill(): Promise<string> {
    await service.api.run(id, 'import os\nfor f in ("full", "leader"):\n  if os.path.exists(f): os.remove(f)');
    const { stdout, error } = await service.api.run(id, FILL);
    assert.equal(error, undefined);
    const pid = stdout.trim();
    // Processes that were killed count until they have exited, and kernels come and go: the leader takes their places.
    await eventually(async () => (await run(pid, { command: ['true'] })).exitCode === 126);
    return pid;
  }
  async function run(pid: string, { command, ...options }: { command: string | string[]; user?: 'root' }) {
    const words = [command].flat().map((word) => word.replace('PID', pid));
    const { body } = await service.api.post(`/v1/sandboxes/${id}/commands`, { command: words, ...options });
    return body.command;
  }

  for (const [name, end] of Object.entries(ENDS)) {
    it(`a program that has taken all processes of a sandbox is ended by ${name}, and then a context opens`, async () => {
      const pid = await fill();
      const command = await run(pid, end);
      assert.deepEqual([command.status, command.exitCode], ['exited', 0], command.stderr);
      // Killed processes count until they have exited.
      let opened = await service.api.post(contexts(id), { language: 'python' });
      await eventually(async () => {
        if (opened.status !== 201) opened = await service.api.post(contexts(id), { language: 'python' });
        return opened.status === 201;
      });
      await service.api.delete(`${contexts(id)}/${opened.body.context.id}`);
    });
  }

  it('a program that has taken all processes of a sandbox leaves the reserve to its owner, one command after another', async () => {
    const pid = await fill();
    for (const command of REFUSED) assert.equal((await run(pid, { command })).exitCode, 126, command.join(' '));
    const asked = Array.from({ length: 4 }, () => run(pid, { command: ['id', '-un'], user: 'root' }));
    for (const { exitCode, stdout } of await Promise.all(asked)) assert.deepEqual([exitCode, stdout], [0, 'root\n']);
    // The reserve has its own limit.
    const most = await run(pid, { command: ['sh', '-c', 'sleep 1 | sleep 1 | sleep 1 | sleep 1'], user: 'root' });
    assert.match(most.stderr, /fork/);
    await run(pid, { command: ['kill', '-9', '--', '-PID'] });
  });
});
