import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { WorkspaceRunEvent } from '@cloche/contract';
import {
  drop,
  eventStream,
  failing,
  json,
  type Reply,
  type SeenRequest,
  sampleWorkspaceRun,
  startScriptedServer,
} from '../testing/index.ts';
import { Cloche } from './cloche.ts';
import { ClocheError } from './cloche-error.ts';
import { transfer } from './workspace-archive.ts';

const at = '2026-01-01T00:00:00.000Z';
const finished = sampleWorkspaceRun({ status: 'succeeded', exitCode: 0 });
const framed = (event: WorkspaceRunEvent) =>
  `id: ${event.seq}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
const state = (seq: number, status: 'running' | 'succeeded') => framed({ seq, at, type: 'state', data: { status } });
const exit = `event: exit\ndata: ${JSON.stringify({ type: 'exit', data: finished })}\n\n`;
const stdout = (seq: number, data: string) => framed({ seq, at, type: 'stdout', data });

/** The last part of the path, with the method: `POST start`. */
const nameOf = ({ method, path }: SeenRequest) => `${method} ${path.replace(/\?.*/, '').split('/').at(-1)}`;
const inStatus = (status: 'archived' | 'queued' | 'canceled') =>
  json(200, { workspaceRun: sampleWorkspaceRun({ status }) });

/** Starts a service that answers each request by its name, the replies of one name in order. The last one stays. */
async function startService(replies: Readonly<Record<string, Reply | readonly Reply[]>> = {}) {
  const all: Readonly<Record<string, Reply | readonly Reply[]>> = {
    'POST workspace-runs': json(201, { workspaceRun: sampleWorkspaceRun() }),
    'PUT archive': inStatus('archived'),
    'POST start': inStatus('queued'),
    'POST cancel': inStatus('canceled'),
    'GET stream': eventStream([state(1, 'running'), stdout(2, 'a\n'), state(3, 'succeeded'), exit]),
    'GET wrun_1': json(200, { workspaceRun: finished }),
    ...replies,
  };
  const seen = new Map<string, number>();
  const server = await startScriptedServer((request) => {
    const name = nameOf(request);
    const count = seen.get(name) ?? 0;
    seen.set(name, count + 1);
    const given = all[name] ?? json(418, {});
    return typeof given === 'function' ? given : (given[Math.min(count, given.length - 1)] as Reply);
  });
  const cloche = new Cloche({ url: server.url, apiKey: 'clk_test', retryDelayMs: 1 });
  const named = (name: string) => server.requests.filter((request) => nameOf(request) === name);
  return {
    cloche,
    runs: cloche.workspaceRuns,
    names: () => server.requests.map(nameOf),
    named,
    requests: server.requests,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'cloche-run-'));
  writeFileSync(join(directory, 'Makefile'), 'test:\n\techo a\n');
});
afterEach(() => rmSync(directory, { recursive: true }));

describe('a directory that is run', () => {
  it('a directory that is run is packed, uploaded, started and followed to its end', async () => {
    await using service = await startService();
    const events: string[] = [];
    const created: string[] = [];
    const run = await service.runs.run({
      directory,
      command: 'make test',
      artifacts: ['dist/**'],
      onCreated: ({ id }) => void created.push(id),
      onEvent: ({ type }) => void events.push(type),
    });
    assert.deepEqual(run.info, finished);
    assert.deepEqual([created, events], [['wrun_1'], ['state', 'stdout', 'state']]);
    assert.deepEqual(service.names(), ['POST workspace-runs', 'PUT archive', 'POST start', 'GET stream']);
    assert.deepEqual(service.requests[0]?.body, { command: 'make test', artifacts: ['dist/**'] });
    const upload = service.requests[1];
    assert.equal(upload?.headers['content-type'], 'application/x-tar');
    assert.equal(execFileSync('tar', ['-tf', '-'], { input: upload.bytes, encoding: 'utf8' }), 'Makefile\n');
  });

  it('a directory that is run is packed again when its upload breaks off, under the same key', async () => {
    await using service = await startService({ 'PUT archive': [drop, failing('unavailable'), inStatus('archived')] });
    await service.runs.run({ directory, command: 'true' });
    const uploads = service.named('PUT archive');
    assert.equal(uploads.length, 3);
    assert.equal(new Set(uploads.map(({ headers }) => headers['idempotency-key'])).size, 1);
    assert.ok(uploads.every(({ bytes }) => bytes.equals(uploads[0]?.bytes ?? Buffer.of())));
  });

  it('a directory that is run that has changed between two attempts is uploaded under another key', async () => {
    await using service = await startService({
      'PUT archive': [failing('idempotency_key_reused'), inStatus('archived')],
    });
    assert.equal((await service.runs.run({ directory, command: 'true' })).info.status, 'succeeded');
  });

  it('a directory that is run that cannot be packed creates no run', async () => {
    await using service = await startService();
    rmSync(join(directory, 'Makefile'));
    const missing = join(directory, 'missing');
    await assert.rejects(service.runs.run({ directory: missing, command: 'true' }), { code: 'packing_failed' });
    await assert.rejects(service.runs.run({ command: 'true' }), { code: 'invalid_options' });
    assert.deepEqual(service.names(), []);
  });

  it('a directory that is run is followed over interruptions, without a gap or a repeat', async () => {
    await using service = await startService({
      'GET stream': [
        eventStream([state(1, 'running'), stdout(2, 'a')]),
        drop,
        eventStream([stdout(3, 'b')]),
        eventStream([stdout(4, 'c'), state(5, 'succeeded'), exit]),
      ],
    });
    const seqs: number[] = [];
    await service.runs.run({ directory, command: 'true', onEvent: ({ seq }) => void seqs.push(seq) });
    assert.deepEqual(seqs, [1, 2, 3, 4, 5]);
    const positions = service
      .named('GET stream')
      .map(({ path }) => new URL(path, 'http://x').searchParams.get('afterSeq'));
    assert.deepEqual(positions, ['0', '2', '2', '3']);
  });

  it('a directory that is run is followed by a further call with the same key, also if the first one has started it', async () => {
    await using service = await startService({ 'PUT archive': failing('conflict', {}, { status: 'running' }) });
    const options = { directory, command: 'true', idempotencyKey: 'build-7' };
    assert.equal((await service.runs.run(options)).info.status, 'succeeded');
    const keys = [service.named('POST workspace-runs'), service.named('POST start')].map(
      ([request]) => request?.headers['idempotency-key'],
    );
    assert.deepEqual(keys, ['build-7', 'build-7:start']);
    await assert.rejects(service.runs.run({ directory, command: 'true' }), { code: 'conflict' });
  });
});

describe('a run is canceled', () => {
  it('a run is canceled when the caller aborts while it is followed', async () => {
    await using service = await startService({ 'GET stream': eventStream([stdout(1, 'a')], { end: false }) });
    const abort = new AbortController();
    const onEvent = () => abort.abort(new Error('enough'));
    const running = service.runs.run({ directory, command: 'true', signal: abort.signal, onEvent });
    await assert.rejects(running, /enough/);
    assert.equal(service.names().at(-1), 'POST cancel');
  });

  it('a run is canceled when its archive is refused', async () => {
    await using service = await startService({ 'PUT archive': failing('invalid_request') });
    await assert.rejects(service.runs.run({ directory, command: 'true' }), { code: 'invalid_request' });
    assert.deepEqual(service.names(), ['POST workspace-runs', 'PUT archive', 'POST cancel']);
  });

  it('when reading the archive fails, which is reported at once', async () => {
    await using service = await startService();
    async function* broken() {
      yield Buffer.alloc(1000);
      throw new ClocheError('packing_failed', 'it became shorter');
    }
    const archive = { format: 'tar', bytes: broken } as const;
    await assert.rejects(service.runs.run({ archive, command: 'true' }), /it became shorter/);
    assert.equal(service.names().at(-1), 'POST cancel');
    assert.equal(service.named('POST start').length, 0);
  });

  it('a run is canceled but not when it cannot be followed any more', async () => {
    await using service = await startService({ 'GET stream': failing('forbidden') });
    const running = service.runs.run({ directory, command: 'true', onEvent: () => undefined });
    await assert.rejects(running, { code: 'forbidden' });
    assert.equal(service.named('POST cancel').length, 0);
  });
});

describe('a large archive', () => {
  const sha256 = 'a'.repeat(64);
  async function* bytes() {
    yield Buffer.from('large');
  }
  const archive = { format: 'tar.zst', bytes, sizeBytes: 5, sha256 } as const;

  /** Starts a service whose transfers go to it itself. */
  async function startTransfers(replies: Readonly<Record<string, Reply | readonly Reply[]>>) {
    const toItself: Reply = (response, request) => {
      const url = `http://${request.headers.host}/uploads/bucket?signature=x`;
      const transfer = { method: 'PUT', url, headers: { 'x-checksum': sha256 }, expiresAt: at };
      return json(201, { transfer })(response, request);
    };
    return startService({
      'POST archive-transfer': toItself,
      'PUT bucket': json(200, {}),
      'POST finalize': inStatus('archived'),
      ...replies,
    });
  }
  const idOf = finished.id;

  it('a large archive goes to a signed URL, with its size and without the API key, and is finalized', async () => {
    await using service = await startTransfers({});
    const info = await transfer(service.cloche, idOf, archive, {});
    assert.equal(info.status, 'archived');
    assert.deepEqual(service.names(), ['POST archive-transfer', 'PUT bucket', 'POST finalize']);
    assert.deepEqual(service.requests[0]?.body, { format: 'tar.zst', sizeBytes: 5, sha256 });
    const { headers, bytes: sent } = service.requests[1] ?? assert.fail();
    assert.equal(sent.toString(), 'large');
    assert.equal(headers['content-length'], '5');
    assert.deepEqual([headers['transfer-encoding'], headers.authorization], [undefined, undefined]);
    assert.equal(headers['x-checksum'], sha256);
  });

  it('a large archive is transferred again when the upload breaks off, is refused or is lost', async () => {
    await using service = await startTransfers({
      'PUT bucket': [drop, json(200, {})],
      'POST finalize': [failing('conflict', {}, { status: 'awaiting_archive' }), inStatus('archived')],
    });
    assert.equal((await transfer(service.cloche, idOf, archive, {})).status, 'archived');
    assert.equal(service.named('POST archive-transfer').length, 3);
  });

  it('a large archive is not transferred again for ever, nor after the start', async () => {
    await using refusing = await startTransfers({ 'PUT bucket': json(403, { expired: true }) });
    await assert.rejects(transfer(refusing.cloche, idOf, archive, {}), {
      code: 'unexpected_response',
      message: /expired/,
    });
    assert.equal(refusing.named('PUT bucket').length, 3);
    await using started = await startTransfers({ 'POST finalize': failing('conflict', {}, { status: 'queued' }) });
    await assert.rejects(transfer(started.cloche, idOf, archive, {}), { code: 'conflict' });
    assert.equal(started.named('PUT bucket').length, 1);
  });

  it('a large archive needs its SHA-256', async () => {
    await using service = await startTransfers({});
    const unknown = { ...archive, sha256: undefined };
    await assert.rejects(transfer(service.cloche, idOf, unknown, {}), { code: 'invalid_options' });
  });
});

describe('a run', () => {
  it('a run has its output and artifacts after its end', async () => {
    const [first, second] = [
      {
        data: [
          { seq: 1, at, type: 'stdout', data: 'a' },
          { seq: 2, at, type: 'stderr', data: 'x' },
        ],
        nextSeq: 2,
        hasMore: true,
      },
      {
        data: [
          { seq: 3, at, type: 'stdout', data: 'b' },
          { seq: 4, at, type: 'system', data: '!' },
        ],
        nextSeq: 4,
        hasMore: false,
      },
    ];
    await using service = await startService({
      'GET events': [json(200, first), json(200, second)],
      'GET artifacts': json(200, { data: [{ id: 'art_1' }] }),
    });
    const run = await service.runs.get('wrun_1');
    assert.ok(run.isFinished);
    assert.deepEqual(await run.output(), { stdout: 'ab', stderr: 'x' });
    assert.deepEqual(await run.artifacts(), [{ id: 'art_1' }]);
    assert.equal(service.named('GET artifacts')[0]?.path, '/v1/artifacts?workspaceRunId=wrun_1');
    assert.match(service.named('GET events')[1]?.path ?? '', /afterSeq=2/);
  });

  it('a run is waited for with long requests, and over an absence of the service', async () => {
    const running = json(200, { workspaceRun: sampleWorkspaceRun({ status: 'running' }) });
    await using service = await startService({
      'GET wrun_1': [running, running, drop, drop, drop, drop, drop, drop, json(200, { workspaceRun: finished })],
    });
    const run = await service.runs.get('wrun_1');
    assert.equal((await run.wait()).info.status, 'succeeded');
    assert.match(service.requests.at(-1)?.path ?? '', /waitFor=finished&waitMs=60000$/);
  });

  it('a run that has not finished in time stays, and the wait fails', async () => {
    const running = json(200, { workspaceRun: sampleWorkspaceRun({ status: 'running' }) });
    await using service = await startService({ 'GET wrun_1': running });
    const run = await service.runs.get('wrun_1');
    await assert.rejects(run.wait({ timeoutMs: 1 }), { code: 'deadline_exceeded', message: /wrun_1/ });
  });

  it('a run is listed by project, status and labels', async () => {
    await using service = await startService({ 'GET workspace-runs': json(200, { data: [finished] }) });
    const [run] = await service.runs.list({ projectId: 'prj_1', status: 'failed', metadata: { ref: 'main' } });
    assert.equal(run?.id, 'wrun_1');
    const { searchParams } = new URL(service.requests[0]?.path ?? '', 'http://x');
    assert.deepEqual(Object.fromEntries(searchParams), {
      projectId: 'prj_1',
      status: 'failed',
      'metadata.ref': 'main',
    });
  });
});
