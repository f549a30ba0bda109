import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { WorkspaceRunEvent, WorkspaceRunInfo } from '@cloche/sdk';
import {
  eventStream,
  failing,
  json,
  type Reply,
  type SeenRequest,
  sampleWorkspaceRun,
  startScriptedServer,
} from '@cloche/sdk/testing';
import { exitOf, startCloche } from '../../testing/run-cloche.ts';
import { recordedOutput, runInProcess } from '../../testing/run-in-process.ts';
import { PackingProgress } from './packing-progress.ts';

const at = '2026-01-01T00:00:00.000Z';
const framed = (event: WorkspaceRunEvent) => `data: ${JSON.stringify(event)}\n\n`;
const out = (seq: number, data: string, type: 'stdout' | 'stderr' | 'system' = 'stdout') => ({ seq, at, type, data });
const ended = (seq: number, status: 'succeeded' | 'failed' | 'timed_out' | 'canceled'): WorkspaceRunEvent => ({
  seq,
  at,
  type: 'state',
  data: { status },
});
const nameOf = ({ method, path }: SeenRequest) => `${method} ${path.replace(/\?.*/, '').split('/').at(-1)}`;
const answerWith = (info: Partial<WorkspaceRunInfo>, status = 200) =>
  json(status, { workspaceRun: sampleWorkspaceRun(info) });

/** Starts a service whose run ends as `info` says, after these events. */
async function startService(
  info: Partial<WorkspaceRunInfo>,
  events: readonly WorkspaceRunEvent[],
  replies: Readonly<Record<string, Reply>> = {},
) {
  const exit = `data: ${JSON.stringify({ type: 'exit', data: sampleWorkspaceRun(info) })}\n\n`;
  const all: Readonly<Record<string, Reply>> = {
    'POST workspace-runs': answerWith({}, 201),
    'PUT archive': answerWith({ status: 'archived' }),
    'POST start': answerWith({ status: 'queued' }),
    'POST cancel': answerWith({ status: 'canceled' }),
    'GET stream': eventStream([...events.map(framed), exit]),
    'GET events': json(200, { data: events, nextSeq: 9, hasMore: false }),
    'GET wrun_1': answerWith(info),
    'GET workspace-runs': json(200, { data: [sampleWorkspaceRun(info)] }),
    ...replies,
  };
  const server = await startScriptedServer((request) => all[nameOf(request)] ?? json(418, {}));
  return Object.assign(server, { names: () => server.requests.map(nameOf) });
}

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'cloche-job-'));
  writeFileSync(join(directory, 'file'), 'content');
});
afterEach(() => rmSync(directory, { recursive: true }));

describe('cloche job run', () => {
  const succeeded = { status: 'succeeded', exitCode: 0 } as const;
  const run = (url: string, ...args: string[]) => runInProcess(['job', 'run', '--dir', directory, ...args], { url });

  it('cloche job run prints to the streams that the command printed to, and ends with its exit code', async () => {
    const events = [out(1, 'a\n'), out(2, 'b\n', 'stderr'), out(3, 'c'), ended(4, 'failed')];
    await using service = await startService({ status: 'failed', exitCode: 3 }, events);
    const outcome = await run(service.url, '--', 'make', '-k', 'test', '--json');
    assert.deepEqual(outcome, { exitCode: 3, stdout: 'a\nc', stderr: 'wrun_1 created\nb\n' });
    assert.deepEqual(service.requests[0]?.body, { command: ['make', '-k', 'test', '--json'] });
    const archive = service.requests[1]?.bytes;
    assert.equal(execFileSync('tar', ['-tf', '-'], { input: archive, encoding: 'utf8' }), 'file\n');
  });

  it('cloche job run says on a terminal what becomes of it', async () => {
    const archive = { format: 'tar', sizeBytes: 2048, sha256: 'a', entries: 7 } as const;
    const state = (seq: number, status: 'queued' | 'running') =>
      ({ seq, at, type: 'state', data: { status } }) as const satisfies WorkspaceRunEvent;
    const events = [state(1, 'queued'), state(2, 'running'), out(3, 'a\n'), ended(4, 'succeeded')];
    const info = {
      ...{ ...succeeded, archive, startedAt: at, finishedAt: '2026-01-01T00:00:12.000Z' },
      ...{ sandboxId: 'sbx_7', artifactIds: ['art_1', 'art_2'] },
    } as const satisfies Partial<WorkspaceRunInfo>;
    const replies = { 'POST start': answerWith({ status: 'queued', archive }) };
    await using service = await startService(info, events, replies);
    const args = ['job', 'run', '--dir', directory, 'true'];
    const { stderr } = await runInProcess(args, { url: service.url, isTerminal: true });
    const lines = stderr.split('\u001b[2K').at(-1);
    assert.equal(
      lines,
      'wrun_1 created\n↑ packed 7 entries, 2.0 KiB\nrunning in sbx_7\n✔ succeeded in 12 s, 2 artifacts\n' +
        'to download: cloche job artifacts wrun_1 --download DIR\n',
    );
  });

  it('cloche job run says on a terminal how many jobs are before it, and what it waits for', async () => {
    const queued = { status: 'queued', queuedAt: '2026-01-01T00:00:02.000Z', waitsFor: 'capacity' } as const;
    const later = { ...queued, id: 'wrun_3', queuedAt: '2026-01-01T00:00:03.000Z' } as const;
    const earlier = { ...queued, id: 'wrun_2', queuedAt: '2026-01-01T00:00:01.000Z' } as const;
    const data = [later, queued, earlier].map(sampleWorkspaceRun);
    const listed = Promise.withResolvers<void>();
    const stream: Reply = async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
      response.write(framed({ seq: 1, at, type: 'state', data: { status: 'queued' } }));
      await listed.promise;
      const exit = { type: 'exit', data: sampleWorkspaceRun(succeeded) };
      // After the answer to the list, which another connection carries.
      setTimeout(() => response.end(`data: ${JSON.stringify(exit)}\n\n`), 300);
    };
    const list: Reply = (response, request) => {
      listed.resolve();
      return json(200, { data, hasMore: false })(response, request);
    };
    await using service = await startService(succeeded, [], { 'GET stream': stream, 'GET workspace-runs': list });
    const args = ['job', 'run', '--dir', directory, 'true'];
    const { stderr } = await runInProcess(args, { url: service.url, isTerminal: true });
    assert.match(stderr, /\nqueued \(2nd, no host has room yet\)\n/);
  });

  it('cloche job run passes on what its options say', async () => {
    await using service = await startService(succeeded, [ended(1, 'succeeded')]);
    // biome-ignore format: pairs
    const flags = ['--template', 'node', '--env', 'A=b=c', '--secret', 'KEY=sec_1', '--artifact', 'dist/**', '--artifact', '*.xml',
      '--timeout', '30m', '--cpu', '2', '--memory', '512', '--network', 'deny-all', '--cwd', 'app', '--metadata', 'ref=main'];
    await run(service.url, ...flags, 'make test | tee log');
    assert.deepEqual(service.requests[0]?.body, {
      command: 'make test | tee log',
      template: 'node',
      env: { A: 'b=c' },
      secrets: { KEY: 'sec_1' },
      artifacts: ['dist/**', '*.xml'],
      timeoutMs: 1_800_000,
      resources: { cpu: 2, memoryMb: 512 },
      networkPolicy: { mode: 'deny-all' },
      cwd: 'app',
      metadata: { ref: 'main' },
    });
  });

  it('cloche job run prints the id of a detached job and does not follow it', async () => {
    await using service = await startService(succeeded, []);
    assert.deepEqual(await run(service.url, '-d', 'true'), { exitCode: 0, stdout: 'wrun_1\n', stderr: '' });
    assert.deepEqual(service.names(), ['POST workspace-runs', 'PUT archive', 'POST start']);
  });

  it('cloche job run prints one line of JSON for each event', async () => {
    const events = [out(1, 'a\n'), ended(2, 'succeeded')];
    await using service = await startService(succeeded, events);
    const { stdout, stderr } = await run(service.url, '--json', 'true');
    assert.deepEqual(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
      events,
    );
    assert.equal(stderr, '');
  });

  it('cloche job run says why a job failed, and where its artifacts are', async () => {
    const lost = { status: 'failed', error: { code: 'sandbox_lost', message: 'The sandbox ended.' } } as const;
    const missing = { code: 'not_found', message: 'No file matches.' } as const;
    const events = [
      out(1, '64 kB dropped', 'system'),
      { seq: 2, at, type: 'artifact', data: { path: '*.xml', error: missing } } as const,
      ended(3, 'failed'),
    ];
    await using service = await startService({ ...lost, artifactIds: ['art_1', 'art_2'] }, events);
    const { exitCode, stderr } = await run(service.url, 'true');
    assert.equal(exitCode, 1);
    assert.deepEqual(stderr.split('\n').slice(1, -1), [
      '64 kB dropped',
      '*.xml was not exported: No file matches.',
      'wrun_1 failed: The sandbox ended.',
      '2 artifacts; to download: cloche job artifacts wrun_1 --download DIR',
    ]);
  });

  it('says that a job reached its timeout, or was canceled by another client', async () => {
    for (const [info, words] of [
      [{ status: 'timed_out', exitCode: 137 }, 'wrun_1 reached its timeout of 10 min.'],
      [{ status: 'canceled' }, 'wrun_1 was canceled.'],
    ] as const) {
      await using service = await startService(info, [ended(1, info.status)]);
      const { exitCode, stderr } = await run(service.url, 'true');
      assert.equal(stderr, `wrun_1 created\n${words}\n`);
      assert.equal(exitCode, info.status === 'timed_out' ? 137 : 1);
    }
  });

  it('cloche job run notes what it leaves out, and says in one sentence what it cannot pack', async () => {
    await using service = await startService(succeeded, [ended(1, 'succeeded')]);
    execFileSync('mkfifo', [join(directory, 'pipe')]);
    assert.match((await run(service.url, 'true')).stderr, /^pipe is left out: it is a pipe$/m);
    symlinkSync('/etc/passwd', join(directory, 'link'));
    const { exitCode, stderr } = await run(service.url, 'true');
    assert.equal(exitCode, 1);
    assert.match(stderr, /^error: The directory cannot be packed: "link" is a link that .*\.clocheignore\.\n$/);
  });

  it('says that a job goes on that it can follow no more', async () => {
    await using service = await startService({}, [], { 'GET stream': failing('forbidden') });
    const { exitCode, stderr } = await run(service.url, 'true');
    assert.equal(exitCode, 1);
    assert.match(stderr, /^wrun_1 goes on; to follow it: cloche job logs -f wrun_1\nerror: /m);
  });

  it('cloche job run cancels the job when it is interrupted, and says so', async () => {
    await using service = await startService({}, [], {
      'GET stream': eventStream([framed(out(1, 'started\n'))], { end: false }),
    });
    const env = { CLOCHE_URL: service.url, CLOCHE_API_KEY: 'clk_test' };
    const child = startCloche(['job', 'run', '--dir', directory, 'sleep 9'], { env });
    let stderr = '';
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    child.stdout.once('data', () => child.kill('SIGINT'));
    assert.equal(await exitOf(child), 130);
    assert.equal(service.names().at(-1), 'POST cancel');
    assert.equal(
      stderr,
      'wrun_1 created\nCanceling wrun_1. A second Ctrl-C leaves at once.\nwrun_1 is canceled.\nInterrupted.\n',
    );
  });
});

describe('the progress of a job', () => {
  const stepsOf = async (isTerminal: boolean) => {
    let now = 0;
    const err = recordedOutput(isTerminal);
    const session = { terminal: { out: err.output, err: err.output }, note: (text: string) => err.output.line(text) };
    const progress = new PackingProgress(session, () => now);
    for (const phase of ['packing', 'uploading'] as const) {
      progress.show({ phase, bytes: 0, totalBytes: 4e6 });
      now += 1000;
      progress.show({ phase, bytes: 1e6, totalBytes: 4e6 });
    }
    progress.note({ path: 'log', reason: 'changed' });
    progress.note({ path: 'log', reason: 'changed' });
    await progress.end();
    return err.text();
  };

  it('the progress of a job is shown on a terminal, and only there; a note is shown once', async () => {
    assert.match(await stepsOf(true), /packing .* 25% {2}976\.6 KiB of 3\.8 MiB .*uploading .* 25% .*log changed/s);
    assert.equal(await stepsOf(false), 'log changed while it was packed\n');
  });
});

describe('cloche job', () => {
  const info = {
    status: 'failed',
    exitCode: 2,
    startedAt: at,
    finishedAt: '2026-01-01T00:01:30.000Z',
    archive: { format: 'tar', sizeBytes: 2048, sha256: 'a', entries: 7 },
  } as const;

  it('lists and shows jobs', async () => {
    await using service = await startService(info, []);
    const listed = await runInProcess(['job', 'list', '--status', 'failed'], service);
    assert.match(listed.stdout, /^ID +STATUS +EXIT +CREATED +TOOK +COMMAND\nwrun_1 +failed +2 .* 1 min +make test\n$/);
    assert.equal(service.requests[0]?.path, '/v1/workspace-runs?status=failed');
    const shown = await runInProcess(['job', 'get', 'wrun_1'], service);
    assert.match(shown.stdout, /^status +failed \(exit code 2\)\n(.*\n)*archive +tar, 2\.0 KiB, 7 entries\n/m);
  });

  it('cloche job prints the output so far, and with -f that to come and the exit code', async () => {
    await using service = await startService(info, [out(1, 'a\n'), ended(2, 'failed')]);
    assert.deepEqual(await runInProcess(['job', 'logs', 'wrun_1'], service), {
      exitCode: 0,
      stdout: 'a\n',
      stderr: '',
    });
    const followed = await runInProcess(['job', 'logs', '-f', 'wrun_1'], service);
    assert.deepEqual(followed, { exitCode: 2, stdout: 'a\n', stderr: '' });
    assert.ok(service.names().includes('GET stream'));
  });

  it('cloche job cancels jobs', async () => {
    await using service = await startService({ status: 'running' }, []);
    const { stderr } = await runInProcess(['job', 'cancel', 'wrun_1', 'wrun_1'], service);
    assert.equal(stderr, 'wrun_1 canceled\nwrun_1 canceled\n');
  });
});

describe('cloche job artifacts', () => {
  const artifact = (id: string, path: string) => ({ id, path, name: 'x', sizeBytes: 7 });
  const serve = (...data: readonly object[]) =>
    startService({}, [], {
      'GET artifacts': json(200, { data }),
      'GET content': (response) => void response.end('content'),
    });

  it('cloche job artifacts are listed, and downloaded by their paths', async () => {
    await using service = await serve(artifact('art_1', '/workspace/dist/a.js'), artifact('art_2', 'dist/sub/b.js'));
    const { stdout } = await runInProcess(['job', 'artifacts', 'wrun_1'], service);
    assert.match(stdout, /^ID +PATH +SIZE\nart_1 +dist\/a\.js +7 B\nart_2 +dist\/sub\/b\.js +7 B\n$/);
    const target = join(directory, 'new');
    const args = ['job', 'artifacts', 'wrun_1', '--download', target];
    assert.equal((await runInProcess(args, service)).stderr.split('\n').length, 3);
    assert.equal(readFileSync(join(target, 'dist/sub/b.js'), 'utf8'), 'content');
    const again = await runInProcess(args, service);
    assert.match(again.stderr, /dist\/a\.js already exists/);
  });

  it('cloche job artifacts are not written out of the folder', async () => {
    const target = join(directory, 'in');
    mkdirSync(target);
    for (const path of ['../out', '/workspace/../out', '/etc/out', 'a/../../out']) {
      await using service = await serve(artifact('art_1', path));
      const { exitCode } = await runInProcess(['job', 'artifacts', 'wrun_1', '--download', target], service);
      assert.equal(exitCode, 1);
    }
    assert.equal(existsSync(join(directory, 'out')), false);
  });
});
