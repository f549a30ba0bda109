import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventStream, frame, type Reply, sampleRun } from '@cloche/sdk/testing';
import type { LoggingLevel } from '@modelcontextprotocol/server';
import { REVISIONS, startRouter } from '../testing/start-router.ts';
import { CallLog } from './tools/call-log.ts';

let reply: () => Reply;
let router: Awaited<ReturnType<typeof startRouter>>;
before(async () => {
  router = await startRouter(() => reply());
});
after(() => router[Symbol.asyncDispose]());

describe('the messages of a call', () => {
  const call = { name: 'run_code', arguments: { sandboxId: 'sbx_1', code: '1' } };
  /** Returns what a client gets of a run that prints on both streams. */
  async function messagesAt(level: LoggingLevel | undefined, options: object, printed = ['out\n', 'err\n']) {
    const [stdout = '', stderr = ''] = printed;
    const run = { ...sampleRun(), stdout, stderr };
    reply = () => eventStream([frame('stdout', stdout), frame('stderr', stderr), frame('complete', run)]);
    const client = await router.connect(options);
    const messages: { level: string; logger?: string | undefined; data: unknown }[] = [];
    client.setNotificationHandler('notifications/message', ({ params }) => void messages.push(params));
    const isNewest = client.getNegotiatedProtocolVersion() === '2026-07-28';
    if (!isNewest && level !== undefined) await client.setLoggingLevel(level);
    const _meta = isNewest && level !== undefined ? { 'io.modelcontextprotocol/logLevel': level } : undefined;
    const answer = await client.callTool({ ...call, ...(_meta && { _meta }) });
    assert.equal(answer.isError, undefined, JSON.stringify(answer.content));
    await client.close();
    return messages;
  }
  const eventsOf = (messages: { data: unknown }[]) => messages.map(({ data }) => (data as { event: string }).event);

  for (const [revision, options] of Object.entries(REVISIONS)) {
    it(`the messages of a call are those that the client asked for, in the revision ${revision}`, async () => {
      for (const [level, events] of [
        [undefined, []],
        ['debug', ['started', 'stdout', 'stderr', 'ended']],
        ['info', ['stdout', 'stderr']],
        ['notice', ['stderr']],
        ['warning', ['stderr']],
        ['error', []],
        ['emergency', []],
      ] as const)
        assert.deepEqual(eventsOf(await messagesAt(level, options)), events, String(level));
      const [out, err] = await messagesAt('info', options);
      assert.deepEqual(out, { level: 'info', logger: 'run_code', data: { event: 'stdout', text: 'out\n' } });
      assert.deepEqual(err, { level: 'warning', logger: 'run_code', data: { event: 'stderr', text: 'err\n' } });
    });
  }

  it('the messages of a call are bounded in length, each and together', async () => {
    const messages = await messagesAt('info', {}, ['x'.repeat(100_000), '']);
    assert.ok(JSON.stringify(messages).length < 10_000);
    let sent = 0;
    const log = new CallLog('debug', (_level, { text = '' }) => {
      sent += text.length;
    });
    for (let count = 0; count < 1000; count++) log.add('info', { event: 'stdout', text: 'x'.repeat(8192) });
    assert.equal(sent, 1024 * 1024);
  });
});
