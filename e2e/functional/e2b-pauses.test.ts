/** Holds pauses by E2B's protocol to E2B's own clients, on real sandboxes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { Sandbox as CodeSandbox } from '@e2b/code-interpreter';
import { Sandbox } from 'e2b';
import * as older from 'e2b-older';
import { type E2bOptions, e2bOptions, LASTING } from '../support/e2b-options.ts';
import { E2B_PYTHON, runE2bPython } from '../support/e2b-python.ts';
import { sharedService, type TestService } from '../support/service.ts';

const PORT = 8000;

let service: TestService;
let options: E2bOptions;
before(async () => {
  service = await sharedService();
  options = e2bOptions(service);
});
after(() => service?.close());

const asleep = (sandbox: Sandbox) =>
  eventually(async () => (await sandbox.getInfo()).state === 'paused', { because: 'its lifetime is over' });

/** Sends a request to the port of a sandbox, whose host need not resolve. */
async function visit(sandbox: Sandbox): Promise<{ status: number | undefined; body: string }> {
  const { hostname, port } = new URL(service.url);
  const sent = request({ hostname, port, agent: false, headers: { host: sandbox.getHost(PORT) } });
  sent.end();
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: answer.statusCode, body: await text(answer) };
}

async function serve(sandbox: Sandbox): Promise<void> {
  await sandbox.files.write('/tmp/site/index.html', 'from inside');
  await sandbox.commands.run(`python3 -m http.server ${PORT} -d /tmp/site`, { background: true });
  await eventually(async () => (await visit(sandbox)).status === 200, { because: 'the program listens' });
}

describe('a sandbox that E2B’s clients pause', () => {
  const CLIENTS = { newest: Sandbox, older: older.Sandbox as unknown as typeof Sandbox };
  for (const [age, client] of Object.entries(CLIENTS)) {
    it(`a sandbox that E2B’s ${age} clients pause goes on with its processes, files and policy`, async () => {
      const sandbox = await client.create({ ...options, ...LASTING, envs: { KEPT: 'yes' } });
      await sandbox.files.write('/tmp/kept', 'kept');
      const running = await sandbox.commands.run('sleep 600', { background: true });
      await sandbox.pause();
      assert.equal(await sandbox.isRunning(), false);
      await assert.rejects(sandbox.files.read('/tmp/kept'), /paused/);
      await assert.rejects(sandbox.commands.list(), /paused/);
      const listed = await client.list({ ...options, query: { state: ['paused'] } }).nextItems();
      assert.ok(listed.some(({ sandboxId }) => sandboxId === sandbox.sandboxId));
      const again = await client.connect(sandbox.sandboxId, options);
      assert.equal(again.sandboxId, sandbox.sandboxId);
      assert.equal(await sandbox.isRunning(), true);
      assert.equal(await again.files.read('/tmp/kept'), 'kept');
      assert.equal((await again.commands.run('echo $KEPT')).stdout, 'yes\n');
      assert.ok((await again.commands.list()).some(({ pid }) => pid === running.pid));
      await again.kill();
    });
  }

  it('a sandbox that E2B’s clients pause twice says that it was paused', async () => {
    const sandbox = await Sandbox.create({ ...options, ...LASTING });
    assert.deepEqual([await sandbox.pause(), await sandbox.pause()], [true, false]);
    await sandbox.kill();
  });

  it('a sandbox that E2B’s clients pause keeps the variables of its code', async () => {
    const sandbox = await CodeSandbox.create({ ...options, ...LASTING });
    await sandbox.runCode('x = 41');
    await sandbox.pause();
    await assert.rejects(sandbox.runCode('x'), /paused/);
    await sandbox.connect();
    assert.equal((await sandbox.runCode('x + 1')).text, '42');
    assert.equal((await sandbox.commands.run('sudo whoami')).stdout, 'root\n');
    await sandbox.kill();
  });

  it('a sandbox that E2B’s clients pause without its memory keeps its files and sudo', async () => {
    const sandbox = await CodeSandbox.create({ ...options, ...LASTING });
    await sandbox.runCode("x = 41; open('/tmp/kept', 'w').write('kept')");
    await sandbox.pause({ keepMemory: false });
    await sandbox.connect();
    assert.equal((await sandbox.runCode('x')).error?.name, 'NameError');
    assert.equal((await sandbox.commands.run('cat /tmp/kept; sudo whoami')).stdout, 'keptroot\n');
    await sandbox.kill();
  });

  it('a sandbox that E2B’s clients pause ends the code run in progress, and the wait for a command', async () => {
    const sandbox = await CodeSandbox.create({ ...options, ...LASTING });
    const command = await sandbox.commands.run('sleep 600', { background: true });
    const waits = assert.rejects(command.wait(), /paused/);
    const begun = Promise.withResolvers<void>();
    const onStdout = () => begun.resolve();
    const run = sandbox.runCode('print(1, flush=True); import time; time.sleep(600)', { onStdout });
    await begun.promise;
    await sandbox.pause();
    assert.equal((await run).error?.name, 'CanceledError');
    await waits;
    await sandbox.connect();
    assert.equal((await sandbox.commands.connect(command.pid)).pid, command.pid);
    await sandbox.kill();
  });

  it('a sandbox that E2B’s clients pause is reached at its ports again once it is connected to', async () => {
    const sandbox = await Sandbox.create({ ...options, ...LASTING });
    await serve(sandbox);
    await sandbox.pause();
    assert.equal((await visit(sandbox)).status, 502);
    await sandbox.connect();
    assert.equal((await visit(sandbox)).body, 'from inside');
    await sandbox.kill();
  });
});

describe('a sandbox of E2B whose timeout pauses it', () => {
  it('a sandbox of E2B whose timeout pauses it is woken by connect alone', async () => {
    const sandbox = await Sandbox.create({ ...options, timeoutMs: 1_000, lifecycle: { onTimeout: 'pause' } });
    await asleep(sandbox);
    assert.equal(await sandbox.isRunning(), false);
    await sandbox.connect(LASTING);
    assert.equal((await sandbox.getInfo()).state, 'running');
    await sandbox.setTimeout(1_000);
    await asleep(sandbox);
    await sandbox.kill();
  });

  const WAKING: Readonly<Record<string, (sandbox: Sandbox) => Promise<unknown>>> = {
    'a command': (sandbox) => sandbox.commands.run('true'),
    'a file': (sandbox) => sandbox.files.read('/tmp/site/index.html'),
    'a request to a port': async (sandbox) => assert.equal((await visit(sandbox)).body, 'from inside'),
  };
  for (const [name, use] of Object.entries(WAKING)) {
    it(`a sandbox of E2B whose timeout pauses it is woken by ${name}, if it resumes by itself`, async () => {
      const lifecycle = { onTimeout: 'pause', autoResume: true } as const;
      const sandbox = await Sandbox.create({ ...options, timeoutMs: 60_000, lifecycle });
      await serve(sandbox);
      await sandbox.setTimeout(1);
      await asleep(sandbox);
      await use(sandbox);
      const { state, startedAt, endAt } = await sandbox.getInfo();
      assert.equal(state, 'running');
      assert.equal(endAt.getTime() - startedAt.getTime(), 300_000);
      await sandbox.kill();
    });
  }
});

it('E2B’s clients for Python, sync and async, pause and wake sandboxes', async () => {
  for (const requirements of Object.values(E2B_PYTHON)) {
    const { code, stdout, stderr } = await runE2bPython('e2e/support/e2b_pauses.py', service, requirements);
    assert.equal(code, 0, stdout + stderr);
    assert.match(stdout + stderr, /^OK$/m);
  }
});
