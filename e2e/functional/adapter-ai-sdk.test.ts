/**
 * Holds the adapter for the AI SDK to the types and documents of its harness, which publishes no suite for providers, and
 * runs its `HarnessAgent`, with real sandboxes.
 */
import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import {
  HarnessCapabilityUnsupportedError,
  HarnessSandboxAuthenticationError,
  type HarnessV1,
  type HarnessV1NetworkSandboxSession,
} from '@ai-sdk/harness';
import { HarnessAgent, prepareHarnessSandboxTemplate } from '@ai-sdk/harness/agent';
import { resolveSandboxHomeDir, shellQuote } from '@ai-sdk/harness/utils';
import { Cloche, isClocheError } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';
import { type ClocheSandboxSettings, createClocheSandbox } from 'ai-sdk-cloche';
import { getPreview, openPreviewSocket } from '../support/preview-request.ts';
import { sharedService, type TestService } from '../support/service.ts';

const PORT = 3000;
const SERVER = `
const accept = 'HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\\r\\n\\r\\n';
require('node:http')
  .createServer((request, response) => response.end('from the sandbox'))
  .on('upgrade', (request, socket) => socket.on('error', () => {}).end(accept))
  .listen(${PORT}, () => console.log('listening'));`;

let service: TestService;
let client: Cloche;
let session: HarnessV1NetworkSandboxSession;
before(async () => {
  service = await sharedService();
  client = new Cloche({ url: service.url, apiKey: service.apiKey });
  session = await provider().createSession();
});
after(async () => {
  await session?.destroy();
  await service?.close();
});

function provider(settings: ClocheSandboxSettings = {}) {
  return createClocheSandbox({ url: service.url, apiKey: service.apiKey, ...settings });
}

async function statusOf(sandboxId: string): Promise<string> {
  return (await client.sandboxes.get(sandboxId)).info.status;
}

async function textOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  return new Response(stream).text();
}

/** Waits until no process has this text in its environment. */
function gone(marker: string): Promise<void> {
  return eventually(async () => (await session.run({ command: `grep -ls ${marker} /proc/*/environ` })).stdout === '');
}

describe('a command of the AI SDK', () => {
  it('a command of the AI SDK has its output and its exit code', async () => {
    const command = 'pwd; printf %s "$VALUE"; echo "to stderr" >&2; exit 3';
    const env = { VALUE: `it's "quoted" $HOME` };
    const result = await session.run({ command, workingDirectory: '/tmp', env });
    assert.deepEqual(result, { stdout: `/tmp\n${env.VALUE}`, stderr: 'to stderr\n', exitCode: 3 });
  });

  it('a command of the AI SDK is not started if the signal was aborted before', async () => {
    const abortSignal = AbortSignal.abort(new Error('too late'));
    await assert.rejects(Promise.resolve(session.run({ command: 'touch /tmp/run', abortSignal })), /too late/);
    await assert.rejects(Promise.resolve(session.spawn({ command: 'touch /tmp/run', abortSignal })), /too late/);
    assert.equal((await session.run({ command: 'ls /tmp/run' })).exitCode, 2);
  });

  it('a command of the AI SDK is killed with all its processes by an abort', async () => {
    const marker = randomUUID();
    const controller = new AbortController();
    const command = `echo > /tmp/${marker}; sleep 600 & sleep 600`;
    const running = session.run({ command, env: { MARKER: marker }, abortSignal: controller.signal });
    const rejected = assert.rejects(Promise.resolve(running), /enough/);
    await eventually(async () => (await session.readTextFile({ path: `/tmp/${marker}` })) !== null);
    controller.abort(new Error('enough'));
    await rejected;
    await gone(marker);
  });

  it('a command of the AI SDK says how much of a large output its result leaves out', async () => {
    const bytes = 9_000_000;
    const { stdout, stderr } = await session.run({ command: `head -c ${bytes} /dev/zero | tr '\\0' x` });
    const [, leftOut] = /^\ncloche: (\d+) bytes of stdout are left out$/.exec(stderr) ?? [];
    assert.equal(stdout.length + Number(leftOut), bytes);
  });
});

describe('a process of the AI SDK', () => {
  it('a process of the AI SDK streams its outputs while it runs, and ends with its exit code', async () => {
    const command = 'echo out; echo err >&2; until [ -e /tmp/seen ]; do sleep 0.05; done; echo end; exit 7';
    const spawned = await session.spawn({ command });
    const reader = spawned.stdout.getReader();
    const next = async () => Buffer.from((await reader.read()).value ?? []).toString();
    assert.equal(await next(), 'out\n');
    await session.writeTextFile({ path: '/tmp/seen', content: '' });
    assert.equal(await next(), 'end\n');
    assert.equal(await next(), '');
    assert.equal(await textOf(spawned.stderr), 'err\n');
    assert.deepEqual(await spawned.wait(), { exitCode: 7 });
  });

  it('a process of the AI SDK is read from one output while nothing reads the other', async () => {
    const spawned = await session.spawn({ command: 'head -c 3000000 /dev/zero | tr "\\0" x >&2; echo done' });
    assert.equal(await textOf(spawned.stdout), 'done\n');
    assert.equal((await textOf(spawned.stderr)).length, 3_000_000);
  });

  it('a process of the AI SDK is killed, also twice', async () => {
    const marker = randomUUID();
    const spawned = await session.spawn({ command: 'sleep 600', env: { MARKER: marker } });
    await spawned.kill();
    await spawned.kill();
    assert.deepEqual(await spawned.wait(), { exitCode: 137 });
    await gone(marker);
  });

  it('a process of the AI SDK is killed by an abort, which its wait reports', async () => {
    const marker = randomUUID();
    const controller = new AbortController();
    const command = 'sleep 600';
    const spawned = await session.spawn({ command, env: { MARKER: marker }, abortSignal: controller.signal });
    const rejected = assert.rejects(Promise.resolve(spawned.wait()), /enough/);
    controller.abort(new Error('enough'));
    await rejected;
    await gone(marker);
    assert.equal(await textOf(spawned.stdout), '');
  });
});

describe('the files of the AI SDK', () => {
  it('the files of the AI SDK are written with their directories, replaced and read', async () => {
    const path = '/tmp/deep/down/file.txt';
    await session.writeTextFile({ path, content: 'before, and longer than the next' });
    await session.writeTextFile({ path, content: 'ünïcode ☃\n' });
    assert.equal(await session.readTextFile({ path }), 'ünïcode ☃\n');
    await session.writeTextFile({ path, content: 'ü', encoding: 'latin1' });
    assert.deepEqual(await session.readBinaryFile({ path }), Uint8Array.of(0xfc));
    assert.equal(await session.readTextFile({ path, encoding: 'latin1' }), 'ü');
  });

  it('the files of the AI SDK have relative paths below the directory of commands', async () => {
    await session.writeTextFile({ path: 'below/file.txt', content: 'here' });
    const { stdout } = await session.run({ command: 'cat below/file.txt' });
    assert.equal(stdout, 'here');
    assert.equal(await session.readTextFile({ path: `${session.defaultWorkingDirectory}/below/file.txt` }), 'here');
  });

  it('the files of the AI SDK are read by lines', async () => {
    const path = '/tmp/lines';
    await session.writeTextFile({ path, content: 'one\r\ntwo\r\nthree' });
    const read = (startLine?: number, endLine?: number) =>
      session.readTextFile({ path, ...(startLine && { startLine }), ...(endLine && { endLine }) });
    assert.equal(await read(2, 2), 'two');
    assert.equal(await read(2), 'two\r\nthree');
    assert.equal(await read(undefined, 1), 'one');
    assert.equal(await read(3, 99), 'three');
    assert.equal(await read(9), '');
  });

  it('files of any bytes and any size pass as streams of the AI SDK', async () => {
    const path = '/tmp/large';
    const bytes = Buffer.alloc(
      20_000_000,
      Uint8Array.from({ length: 256 }, (_, index) => index),
    );
    await session.writeFile({ path, content: new Blob([bytes]).stream() });
    const hash = createHash('sha256');
    for await (const chunk of (await session.readFile({ path })) ?? []) hash.update(chunk);
    assert.equal(hash.digest('hex'), createHash('sha256').update(bytes).digest('hex'));
  });

  it('the files of the AI SDK that do not exist are null, and what is no file is an error', async () => {
    const path = '/tmp/no/such';
    assert.equal(await session.readFile({ path }), null);
    assert.equal(await session.readBinaryFile({ path }), null);
    assert.equal(await session.readTextFile({ path }), null);
    await assert.rejects(Promise.resolve(session.readTextFile({ path: '/tmp' })), isClocheError);
    const ended = await provider().createSession();
    await ended.destroy();
    await assert.rejects(Promise.resolve(ended.readTextFile({ path })), (error) =>
      isClocheError(error, 'sandbox_destroyed'),
    );
  });

  it('the files of the AI SDK are neither read nor written after an abort', async () => {
    const file = { path: '/tmp/aborted', abortSignal: AbortSignal.abort(new Error('too late')) };
    await assert.rejects(Promise.resolve(session.writeTextFile({ ...file, content: '' })), /too late/);
    await assert.rejects(Promise.resolve(session.readTextFile(file)), /too late/);
    assert.equal(await session.readTextFile({ path: file.path }), null);
  });
});

describe('a port of the AI SDK', () => {
  it('a port of the AI SDK is reached by HTTP and WebSocket with its header, and not without', async () => {
    const spawned = await session.spawn({ command: `node -e ${shellQuote(SERVER)}` });
    const reader = spawned.stdout.getReader();
    await reader.read();
    assert.deepEqual(session.ports, [PORT]);
    const { url, headers } = await session.getPortEndpoint({ port: PORT });
    assert.deepEqual(await getPreview(url, headers), [200, 'from the sandbox']);
    assert.notEqual((await getPreview(url))[0], 200);
    const socket = await session.getPortEndpoint({ port: PORT, protocol: 'ws' });
    assert.match(socket.url, /^wss?:/);
    assert.equal(await openPreviewSocket(socket.url, socket.headers), 101);
    assert.notEqual(await openPreviewSocket(socket.url), 101);
    // The way that hosts should not use any more, because it has no header.
    assert.equal(await openPreviewSocket(await session.getPortUrl({ port: PORT, protocol: 'ws' })), 101);
    await reader.cancel();
  });

  it('a port of the AI SDK is refused unless it is one of the session, and closed when it is no longer', async () => {
    const refused = (port: number) =>
      assert.rejects(Promise.resolve(session.getPortEndpoint({ port })), (error) =>
        HarnessCapabilityUnsupportedError.isInstance(error),
      );
    await refused(8080);
    await session.setPorts?.([8080]);
    await session.getPortEndpoint({ port: 8080 });
    await refused(PORT);
    const open = async () => (await (await client.sandboxes.get(session.id)).previews.list()).map(({ port }) => port);
    assert.deepEqual(await open(), [8080]);
    await session.setPorts?.([PORT]);
    assert.deepEqual(await open(), []);
  });

  it('the network policy of an AI SDK sandbox is set at creation, and another one is refused', async () => {
    await assert.rejects(Promise.resolve(session.setNetworkPolicy?.({ mode: 'deny-all' })), (error) =>
      HarnessCapabilityUnsupportedError.isInstance(error),
    );
    const denied = await provider({ create: { networkPolicy: { mode: 'deny-all' } } }).createSession();
    assert.equal((await client.sandboxes.get(denied.id)).info.networkPolicy.mode, 'deny-all');
    await denied.destroy();
  });
});

describe('a sandbox of the AI SDK', () => {
  it('a sandbox of the AI SDK is a basic session for tools, without its end and its network', () => {
    const basic = session.restricted();
    assert.match(basic.description, new RegExp(session.id));
    for (const name of ['stop', 'destroy', 'getPortEndpoint', 'setPorts', 'setNetworkPolicy', 'restricted'])
      assert.ok(!(name in basic), name);
  });

  it('a sandbox of the AI SDK without a session id is destroyed by its stop', async () => {
    const created = await provider().createSession();
    await created.stop();
    await created.stop();
    await created.destroy();
    assert.equal(await statusOf(created.id), 'destroyed');
  });

  it('a sandbox of the AI SDK keeps its files when its session is stopped, and is found again', async () => {
    const sessionId = randomUUID();
    const created = await provider().createSession({ sessionId });
    await created.writeTextFile({ path: 'kept.txt', content: 'kept' });
    const spawned = await created.spawn({ command: 'sleep 600' });
    await created.stop();
    assert.deepEqual(await spawned.wait(), { exitCode: 137 });
    const resumed = await provider().resumeSession?.({ sessionId });
    assert.equal(resumed?.id, created.id);
    assert.equal(await resumed?.readTextFile({ path: 'kept.txt' }), 'kept');
    await resumed?.destroy();
    await created.stop();
    assert.equal(await statusOf(created.id), 'destroyed');
    const tooLate = provider().resumeSession?.({ sessionId });
    await assert.rejects(Promise.resolve(tooLate), /has ended: start a new session/);
  });

  it('a sandbox that the caller gives to the AI SDK is used and never ended', async () => {
    const sandbox = await client.sandboxes.create({ ttlMs: 600_000 });
    const own = provider({ sandbox });
    const used = await own.createSession({ sessionId: randomUUID() });
    assert.equal(used.id, sandbox.id);
    await used.stop();
    await used.destroy();
    assert.notEqual(await statusOf(sandbox.id), 'destroyed');
    await sandbox.kill();
  });

  it('a sandbox of the AI SDK lives as long as the settings say, also longer than an hour', async () => {
    const ttlMs = 7_200_000;
    const created = await provider({ create: { ttlMs } }).createSession();
    assert.equal((await client.sandboxes.get(created.id)).info.ttlMs, ttlMs);
    await created.destroy();
  });

  it('a sandbox of the AI SDK is not left behind by a creation that is aborted or fails', async () => {
    const attempt = randomUUID();
    const labelled = provider({ create: { metadata: { attempt } } });
    const controller = new AbortController();
    const aborted = labelled.createSession({ abortSignal: controller.signal });
    controller.abort(new Error('enough'));
    await assert.rejects(Promise.resolve(aborted), /enough/);
    const onFirstCreate = () => Promise.reject(new Error('no set-up'));
    await assert.rejects(Promise.resolve(labelled.createSession({ onFirstCreate })), /no set-up/);
    const left = await client.sandboxes.list({ metadata: { attempt }, include: 'historical' });
    assert.deepEqual(
      left.map(({ info }) => info.destroyedReason),
      ['user_killed', 'user_killed'],
    );
  });

  it('a sandbox of the AI SDK is refused with a wrong key by the error of the host', async () => {
    const refused = provider({ apiKey: 'wrong' }).createSession();
    await assert.rejects(Promise.resolve(refused), (error) => HarnessSandboxAuthenticationError.isInstance(error));
  });
});

/** A harness whose agent is a file that it appends to. */
const harness: HarnessV1 = {
  specificationVersion: 'harness-v1',
  harnessId: 'test',
  builtinTools: {},
  async getBootstrap() {
    const files = [{ path: '/workspace/agent/bridge.sh', content: 'echo bridge >> log\n' }];
    return { harnessId: 'test', bootstrapDir: '/workspace/agent', files, commands: [{ command: 'sh bridge.sh' }] };
  },
  async doStart({ sessionId, sandboxSession, sessionWorkDir, resumeFrom }) {
    const home = await resolveSandboxHomeDir({ sandbox: sandboxSession });
    await sandboxSession.run({
      command: `echo "${resumeFrom ? 'again' : 'first'} ${home}" >> log`,
      workingDirectory: sessionWorkDir,
    });
    const state = { harnessId: 'test', specificationVersion: 'harness-v1', data: { sessionWorkDir } } as const;
    const unused = () => Promise.reject(new Error('not used'));
    return {
      sessionId,
      isResume: resumeFrom !== undefined,
      doDetach: async () => ({ ...state, type: 'resume-session' }),
      doStop: async () => ({ ...state, type: 'resume-session' }),
      doDestroy: async () => {},
      ...{ doPromptTurn: unused, doContinueTurn: unused, doCompact: unused, doSuspendTurn: unused },
    };
  },
};

describe('HarnessAgent', () => {
  const ofSession = (sessionId: string) =>
    client.sandboxes.list({ metadata: { 'ai-sdk-session': sessionId }, include: 'historical' });

  it('HarnessAgent sets a sandbox up once, stops, resumes and destroys it', async () => {
    const agent = new HarnessAgent({ harness, sandbox: provider() });
    const first = await agent.createSession();
    const { sessionId } = first;
    const resumeFrom = await first.stop();
    const second = await agent.createSession({ sessionId, resumeFrom });
    const [sandbox, ...others] = await ofSession(sessionId);
    assert.deepEqual(others, []);
    assert.equal(await sandbox?.files.readText('agent/log'), 'bridge\n');
    const { sessionWorkDir } = resumeFrom.data as { sessionWorkDir: string };
    assert.match((await sandbox?.files.readText(`${sessionWorkDir}/log`)) ?? '', /^first \/\S+\nagain \/\S+\n$/);
    await second.destroy();
    assert.equal((await sandbox?.refresh())?.info.status, 'destroyed');
  });

  it('HarnessAgent leaves nothing behind when it prepares a template', async () => {
    const attempt = randomUUID();
    const sandboxProvider = provider({ create: { metadata: { attempt } } });
    await prepareHarnessSandboxTemplate({ harness, sandboxProvider });
    const left = await client.sandboxes.list({ metadata: { attempt }, include: 'historical' });
    assert.deepEqual(
      left.map(({ info }) => info.status),
      ['destroyed'],
    );
  });
});
