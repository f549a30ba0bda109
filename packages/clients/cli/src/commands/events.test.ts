import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventStream, json, sampleSandbox, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

const event = (seq: number, type: string, sandbox: Parameters<typeof sampleSandbox>[0] = {}) => ({
  seq,
  id: `evt_${seq}`,
  type,
  at: '2026-01-01T00:00:00.000Z',
  orgId: 'org_1',
  projectId: 'prj_1',
  data: { sandbox: sampleSandbox(sandbox) },
});
const envOf = ({ url }: { url: string }) => ({ CLOCHE_URL: url, CLOCHE_API_KEY: 'clk_test' });

describe('cloche events', () => {
  it('cloche events prints every page of events, one line each, with what is special about it', async () => {
    const pages = [
      { data: [event(1, 'sandbox.created')], nextSeq: 1, hasMore: true },
      { data: [], nextSeq: 1000, hasMore: true },
      { data: [event(1001, 'sandbox.failed', { failureReason: 'no\u001b room' })], nextSeq: 1001, hasMore: false },
    ];
    await using server = await startScriptedServer(pages.map((page) => json(200, page)));
    const args = ['events', '--types', 'sandbox.*,artifact.created', '--project', 'prj_1', '--after', '0'];
    const { stdout, exitCode } = await runInProcess(args, { env: envOf(server) });
    const lines = stdout.trimEnd().split('\n');
    assert.equal(exitCode, 0);
    assert.equal(lines.length, 3);
    assert.match(lines[0] ?? '', /^SEQ +TIME +TYPE +RESOURCE +DETAIL +PROJECT$/);
    assert.match(lines[1] ?? '', /^1 +2026-01-01T00:00:00.000Z +sandbox.created +sbx_1 +python-node +prj_1$/);
    assert.match(lines[2] ?? '', /^1001 .* sandbox.failed +sbx_1 +no.* room +prj_1$/);
    assert.ok(!stdout.includes('\u001b'));
    const asked = server.requests.map(({ path }) => new URL(path, 'http://x').searchParams);
    assert.deepEqual(
      asked.map((query) => query.get('afterSeq')),
      ['0', '1', '1000'],
    );
    for (const query of asked) {
      assert.deepEqual([query.get('types'), query.get('projectId')], ['sandbox.*,artifact.created', 'prj_1']);
    }
  });

  it('cloche events follows what is new as lines of JSON, from the last event on or from the one that is named', async () => {
    const all = [event(6, 'sandbox.ready'), event(7, 'sandbox.destroyed', { destroyedReason: 'user_killed' })];
    const frames = all.map((each) => `id: ${each.seq}\nevent: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`);
    const forbidden = 'event: error\ndata: {"type":"error","data":{"name":"forbidden","message":"revoked"}}\n\n';
    for (const [flags, afterSeq] of [
      [[], '5'],
      [['--after', '2'], '2'],
    ] as const) {
      await using server = await startScriptedServer(({ path }) =>
        path.startsWith('/v1/events/stream')
          ? eventStream([...frames, forbidden])
          : json(200, { data: [], nextSeq: 5, hasMore: false }),
      );
      const { stdout, exitCode } = await runInProcess(['events', '-f', '--json', ...flags], { env: envOf(server) });
      assert.notEqual(exitCode, 0);
      assert.deepEqual(
        stdout
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line)),
        all,
      );
      const stream = server.requests.find(({ path }) => path.startsWith('/v1/events/stream'));
      assert.equal(new URL(stream?.path ?? '', 'http://x').searchParams.get('afterSeq'), afterSeq);
    }
  });

  it('cloche events says so when there are none', async () => {
    await using server = await startScriptedServer([json(200, { data: [], nextSeq: 0, hasMore: false })]);
    const { stdout, stderr } = await runInProcess(['events'], { env: envOf(server) });
    assert.deepEqual([stdout, stderr], ['', 'There are no such events.\n']);
  });
});
