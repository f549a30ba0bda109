/** Sandboxes whose root file system comes from an image without the GNU C library, Node.js, Perl and bash. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { runPaths } from '@cloche/layout';
import type { AgentCommand, CapturedVersion, LaunchSpec } from '@cloche/protocol';
import { Cloche } from '@cloche/sdk';
import { HttpClient } from '../../bench/src/http-client.ts';
import { firstRunRequest } from '../../packages/agent/src/warm-up/first-run-request.ts';
import { writeLayout } from '../../packages/image-archive/src/testing/make-image.ts';
import { busyboxRoot } from '../support/image-root.ts';
import { sharedService, type TestService } from '../support/service.ts';

const SANDBOX = 'sbx_imageroot';
const MEBIBYTE = 1024 * 1024;
const folder = mkdtempSync(join(tmpdir(), 'cloche-image-roots-'));

let service: TestService;
let hostd: HttpClient;

before(async () => {
  service = await sharedService();
  hostd = new HttpClient({ socketPath: runPaths(service.runDir).hostdSocket });
});
after(async () => {
  await hostd?.call('DELETE', `/instances/${SANDBOX}/1?until=gone`).catch(() => undefined);
  hostd?.close();
  await service?.close();
  rmSync(folder, { recursive: true });
});

/** Unpacks an image inside a sandbox and has hostd make a version of it. */
async function importImage(archive: string): Promise<CapturedVersion> {
  const cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
  const sandbox = await cloche.sandboxes.create({ ttlMs: 600_000 });
  await sandbox.files.write('/tmp/image.tar', readFileSync(archive), { user: 'root' });
  const argv = ['/opt/cloche/bin/node', '/opt/cloche/unpack-image.cjs', '/tmp/image.tar', '/image'];
  const { stdout = '', exitCode } = await sandbox.commands.run(argv, { user: 'root' });
  assert.equal(exitCode, 0, stdout);
  const { config, layers } = JSON.parse(stdout);
  assert.deepEqual(
    [config, layers],
    [{ env: { PATH: '/opt/app/bin:/bin', GREETING: 'hi' }, user: '0', workdir: '/' }, 1],
  );
  const { generation } = (await hostd.call('GET', '/instances')).body.instances.find(
    ({ sandboxId }: { sandboxId: string }) => sandboxId === sandbox.id,
  );
  const manifest = { languages: ['javascript'], env: config.env };
  const request = { root: 'image', purpose: 'snapshot', manifest };
  const { body } = await hostd.call('POST', `/instances/${sandbox.id}/${generation}/capture`, request);
  return body;
}

describe('a root file system of musl and busybox', () => {
  let agent: HttpClient;
  let agentSocket: string;

  before(async () => {
    const archive = join(folder, 'image.tar');
    const config = { Env: ['PATH=/opt/app/bin:/bin', 'GREETING=hi'], User: '0' };
    writeLayout(archive, { layers: [busyboxRoot('musl')], config, compression: 'gzip' });
    const { id, base } = await importImage(archive);
    assert.equal(base, undefined);
    const spec: LaunchSpec = {
      source: { kind: 'template', templateVersionId: id },
      resources: { cpu: 1, memoryBytes: 512 * MEBIBYTE, diskBytes: 256 * MEBIBYTE, pids: 128 },
      network: { mode: 'deny-all' },
    };
    await hostd.call('PUT', `/instances/${SANDBOX}/1`, spec);
    agentSocket = join(runPaths(service.runDir).instancesDir, service.instanceKey(SANDBOX), 'agent.sock');
    agent = new HttpClient({ socketPath: agentSocket });
  });
  after(() => agent?.close());

  let commands = 0;
  async function run(
    argv: string[],
    user: 'user' | 'root' = 'user',
  ): Promise<{ stdout: string; command: AgentCommand }> {
    commands += 1;
    const path = `/commands/cmd_${commands}`;
    const capture = { stdoutBytes: 10_000, stderrBytes: 10_000 };
    const start = {
      argv,
      cwd: '/workspace',
      env: {},
      user,
      stdinOpen: false,
      logBytes: 10_000,
      timeoutMs: 20_000,
      capture,
    };
    await agent.call('PUT', path, start);
    const body = await text(await agent.open('POST', `${path}/result`, {}));
    const events = body
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const stdout = events.filter(({ type }) => type === 'stdout').map(({ data }) => data);
    return { stdout: stdout.join(''), command: events.at(-1).command };
  }

  it('runs commands as the user of every sandbox, and as root, with the variables of the image', async () => {
    const script = 'echo "$(id -u) $(id -un) $HOME $PATH $GREETING $SHELL"; touch x ~/y && echo written';
    assert.equal(
      (await run(['bash', '-lc', script])).stdout,
      '1000 user /home/user /home/user/.local/bin:/opt/app/bin:/bin hi /bin/sh\nwritten\n',
    );
    assert.equal((await run(['id', '-u'], 'root')).stdout, '0\n');
    const { command } = await run(['sh', '-c', 'exit 7']);
    assert.equal(command.exitCode, 7);
  });

  it('runs JavaScript with the Node.js of the guest folder, whose libraries programs of the image do not get', async () => {
    const code =
      "require('child_process').execSync('env | grep -c LD_; cat /proc/self/maps | grep -c libc.so.6; true').toString().trim() + process.execPath";
    const socket = connect(agentSocket);
    socket.write(firstRunRequest({ id: 'ctx', language: 'javascript', cwd: '/workspace', code, timeoutMs: 30_000 }));
    let lines = '';
    for await (const line of createInterface({ input: socket })) {
      lines += `${line}\n`;
      if (line.includes('"type":"done"') || line.includes('"error":')) break;
    }
    socket.destroy();
    assert.match(lines, /0\\\\n0node|0\\n0node/, lines);
  });

  it('says that it has no Python', async () => {
    const socket = connect(agentSocket);
    socket.write(firstRunRequest({ id: 'py', language: 'python', cwd: '/workspace', code: '1', timeoutMs: 30_000 }));
    for await (const line of createInterface({ input: socket })) {
      if (!line.startsWith('{')) continue;
      assert.match(line, /language_unavailable/);
      break;
    }
    socket.destroy();
  });
});
