/**
 * Holds the adapter for ComputeSDK to what ComputeSDK's own tests of providers check (`packages/test-utils` of its
 * repository, which npm does not have), with real sandboxes, and to what they leave out.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { isClocheError } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';
import { createCompute, type ProviderSandbox } from '@computesdk/provider';
import { type ClocheConfig, cloche } from 'computesdk-cloche';
import { getPreview } from '../support/preview-request.ts';
import { sharedService, type TestService } from '../support/service.ts';

const PORT = 8000;

let service: TestService;
let compute: ReturnType<typeof computeOf>;
let sandbox: ProviderSandbox;
before(async () => {
  service = await sharedService();
  compute = computeOf();
  sandbox = await compute.sandbox.create();
});
after(async () => {
  await sandbox?.destroy();
  await service?.close();
});

function computeOf(config: ClocheConfig = {}) {
  return createCompute({ defaultProvider: cloche({ url: service.url, apiKey: service.apiKey, ...config }) });
}

describe('a sandbox of ComputeSDK', () => {
  it('a sandbox of ComputeSDK is created, found, listed and destroyed', async () => {
    const created = await compute.sandbox.create({ ttlMs: 60_000 });
    const { sandboxId, provider } = created;
    assert.match(sandboxId, /^sbx_/);
    assert.equal(provider, 'cloche');
    assert.equal((await compute.sandbox.getById(sandboxId))?.sandboxId, sandboxId);
    const idsNow = async () => (await compute.sandbox.list()).map((each) => each.sandboxId);
    assert.ok((await idsNow()).includes(sandboxId));
    await compute.sandbox.destroy(sandboxId);
    assert.equal(await compute.sandbox.getById(sandboxId), null);
    assert.ok(!(await idsNow()).includes(sandboxId));
    // Again, and one that never was.
    await created.destroy();
    await compute.sandbox.destroy('sbx_none');
    assert.equal(await compute.sandbox.getById('sbx_none'), null);
  });

  it('a sandbox of ComputeSDK says what it is, also after its end', async () => {
    const created = await compute.sandbox.create({
      timeout: 600_000,
      metadata: { team: 'billing', run: 42 },
      name: 'tests',
    });
    const { status, createdAt, ...info } = await created.getInfo();
    const metadata = { team: 'billing', run: '42', name: 'tests' };
    assert.deepEqual(info, { id: created.sandboxId, provider: 'cloche', timeout: 600_000, metadata });
    assert.equal(status, 'running');
    assert.ok(Math.abs(Date.now() - createdAt.getTime()) < 600_000, createdAt.toISOString());
    await created.destroy();
    assert.equal((await created.getInfo()).status, 'stopped');
  });

  it('a sandbox of ComputeSDK has the environment and the limits of its options before those of the provider', async () => {
    const defaults = computeOf({
      sandbox: { env: { A: 'default', B: 'default' }, resources: { cpu: 1, memoryMb: 256 } },
    });
    const created = await defaults.sandbox.create({ envs: { B: 'option' }, memoryMb: 384 });
    try {
      assert.equal((await created.runCommand('echo $A $B')).stdout, 'default option\n');
      const { cpu, memoryMb } = created.getInstance().info.resources;
      assert.deepEqual({ cpu, memoryMb }, { cpu: 1, memoryMb: 384 });
    } finally {
      await created.destroy();
    }
  });

  it('a sandbox of ComputeSDK is refused if it asks for another start than a template', async () => {
    await assert.rejects(compute.sandbox.create({ snapshotId: 'snap' }), /Cloche has no `snapshotId`.*`templateId`/);
    await assert.rejects(compute.sandbox.create({ templateId: 'no-such-template' }), (error) =>
      isClocheError(error, 'not_found'),
    );
  });

  it('a sandbox of ComputeSDK is not left behind by a creation that is aborted', async () => {
    const label = { attempt: randomUUID() };
    const controller = new AbortController();
    const created = compute.sandbox.create({ metadata: label, signal: controller.signal });
    controller.abort();
    await assert.rejects(created, { name: 'AbortError' });
    const query = new URLSearchParams({ include: 'historical', 'metadata.attempt': label.attempt });
    await eventually(async () => {
      const { body } = await service.api.request('GET', `/v1/sandboxes?${query}`);
      return body.data.length === 1 && body.data[0].destroyedReason === 'user_killed';
    });
  });

  it('a sandbox of ComputeSDK is refused with a wrong key by the error of the service', async () => {
    const refused = computeOf({ apiKey: 'wrong' }).sandbox.create();
    await assert.rejects(refused, (error) => isClocheError(error, 'unauthorized'));
  });
});

describe('a command of ComputeSDK', () => {
  it('a command of ComputeSDK has its output, its exit code and its duration', async () => {
    const { durationMs, ...result } = await sandbox.runCommand('echo "to stdout"; echo "to stderr" >&2; exit 3');
    assert.deepEqual(result, { stdout: 'to stdout\n', stderr: 'to stderr\n', exitCode: 3 });
    assert.ok(durationMs >= 0);
  });

  it('a command of ComputeSDK takes a directory and an environment, with any characters', async () => {
    const value = `it's "quoted" $HOME \`id\`\n`;
    const { stdout } = await sandbox.runCommand('pwd; printf %s "$VALUE"', { cwd: '/tmp', env: { VALUE: value } });
    assert.equal(stdout, `/tmp\n${value}`);
  });

  it('a command of ComputeSDK is a line of the shell, with quotes, variables and pipes', async () => {
    assert.equal((await sandbox.runCommand(`sh -c 'echo "hello  world"'`)).stdout, 'hello  world\n');
    assert.match((await sandbox.runCommand(`sh -c 'echo "$HOME"'`)).stdout, /^\/\S+\n$/);
    assert.equal((await sandbox.runCommand(`echo 'a b' > /tmp/quoted && cat /tmp/quoted | tr a c`)).stdout, 'c b\n');
  });

  it('fails with 127 if there is no such program, and is refused if there is no such directory', async () => {
    const { exitCode, stderr } = await sandbox.runCommand('nonexistent-command-12345');
    assert.equal(exitCode, 127);
    assert.match(stderr, /nonexistent-command-12345/);
    await assert.rejects(sandbox.runCommand('true', { cwd: '/no/such' }), /cwd must be an existing directory/);
  });

  it('a command of ComputeSDK is ended with all its processes when its time is up', async () => {
    const marker = randomUUID();
    const late = await sandbox.runCommand(`echo before; MARKER=${marker} sleep 600`, { timeout: 500 });
    assert.deepEqual([late.exitCode, late.stdout], [124, 'before\n']);
    assert.match(late.stderr, /took too long and was ended/);
    await eventually(async () => (await sandbox.runCommand(`grep -ls ${marker} /proc/*/environ`)).stdout === '');
  });

  it('runs in the background', async () => {
    const { exitCode, stdout } = await sandbox.runCommand('echo done > /tmp/background', { background: true });
    assert.deepEqual([exitCode, stdout], [0, '']);
    await eventually(async () => (await sandbox.runCommand('cat /tmp/background')).stdout === 'done\n');
  });

  it('a command of ComputeSDK hands over its output while it runs, each stream by itself', async () => {
    const seen = { stdout: '', stderr: '' };
    // The command ends only after the first output has arrived here.
    const { exitCode, stdout, stderr } = await sandbox.runCommand(
      'echo out; echo err >&2; until [ -e /tmp/seen ]; do sleep 0.05; done; echo end; exit 3',
      {
        onStdout(text) {
          if (seen.stdout === '') void sandbox.filesystem.writeFile('/tmp/seen', '');
          seen.stdout += text;
        },
        onStderr(text) {
          seen.stderr += text;
        },
      },
    );
    assert.deepEqual({ exitCode, stdout, stderr }, { exitCode: 3, stdout: 'out\nend\n', stderr: 'err\n' });
    assert.deepEqual(seen, { stdout, stderr });
  });

  it('a command of ComputeSDK hands over all of a large output, and says how much its result leaves out', async () => {
    const bytes = 9_000_000;
    let handedOver = 0;
    const { stdout, stderr } = await sandbox.runCommand(`head -c ${bytes} /dev/zero | tr '\\0' x`, {
      onStdout(text) {
        handedOver += text.length;
      },
    });
    assert.equal(handedOver, bytes);
    const [, leftOut] = /^cloche: (\d+) bytes of stdout are left out\n$/.exec(stderr) ?? [];
    assert.equal(stdout.length + Number(leftOut), bytes);
  });
});

describe('the files of ComputeSDK', () => {
  it('the files of ComputeSDK are written, read, listed and removed', async () => {
    const { filesystem } = sandbox;
    const text = 'Hello, ünïcode ☃\n';
    await filesystem.writeFile('/tmp/deep/down/file.txt', text);
    assert.equal(await filesystem.readFile('/tmp/deep/down/file.txt'), text);
    await filesystem.mkdir('/tmp/deep/directory');
    await filesystem.mkdir('/tmp/deep/directory');
    await filesystem.writeFile('/tmp/deep/other.txt', text);
    const entries = (await filesystem.readdir('/tmp/deep')).map(({ name, type }) => `${type} ${name}`);
    assert.deepEqual(entries.sort(), ['directory directory', 'directory down', 'file other.txt']);
    const [other] = (await filesystem.readdir('/tmp/deep')).filter(({ name }) => name === 'other.txt');
    assert.equal(other?.size, Buffer.byteLength(text));
    assert.ok(other?.modified instanceof Date && !Number.isNaN(other.modified.getTime()));
    assert.equal(await filesystem.exists('/tmp/deep/other.txt'), true);
    await filesystem.remove('/tmp/deep');
    assert.equal(await filesystem.exists('/tmp/deep/other.txt'), false);
  });

  it('the files of ComputeSDK that do not exist cannot be read', async () => {
    await assert.rejects(sandbox.filesystem.readFile('/nonexistent/file.txt'), (error) =>
      isClocheError(error, 'not_found'),
    );
  });
});

it('a port of ComputeSDK has a URL, which stays the same', async () => {
  const url = await sandbox.getUrl({ port: PORT });
  assert.equal(await sandbox.getUrl({ port: PORT }), url);
  assert.notEqual(await sandbox.getUrl({ port: PORT + 1 }), url);
  assert.equal(await sandbox.getUrl({ port: PORT, protocol: 'wss' }), url.replace('http', 'ws'));
  await sandbox.filesystem.writeFile('/tmp/site/page', 'from the sandbox');
  await sandbox.runCommand(`python3 -m http.server --directory /tmp/site ${PORT}`, { background: true });
  await eventually(async () => (await getPreview(`${url}/page`))[1] === 'from the sandbox');
});
