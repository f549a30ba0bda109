import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { eventStream, json, type Script, startScriptedServer } from '@cloche/sdk/testing';
import { verifyWebhook } from '@cloche/sdk/webhooks';
import { runInProcess } from '../../testing/run-in-process.ts';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const webhook = {
  id: 'whk_1',
  orgId: 'org_1',
  url: 'https://example.com/hook',
  events: ['sandbox.*'],
  description: 'chat\u001b[2J',
  enabled: false,
  disabledReason: 'gone',
  createdAt: '2026-01-01T00:00:00.000Z',
  updatedAt: '2026-01-01T00:00:00.000Z',
};
const delivery = {
  id: 'dlv_1',
  webhookId: 'whk_1',
  seq: 1,
  eventId: 'evt_1',
  eventType: 'sandbox.ready',
  status: 'pending',
  attempts: 2,
  createdAt: '2026-01-01T00:00:00.000Z',
  response: { status: 503 },
};

async function run(script: Script, ...args: string[]) {
  await using server = await startScriptedServer(script);
  const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
  return { ...(await runInProcess(['webhook', ...args], { env })), requests: server.requests };
}
const always: Script = ({ method, path }) => {
  if (path.includes('/deliveries?')) return json(200, { data: [delivery], hasMore: false });
  if (/\/(test|resend)$/.test(path)) return json(200, { delivery });
  if (path === '/v1/webhooks' && method === 'GET') return json(200, { data: [webhook], hasMore: false });
  return json(200, { webhook, ...(method === 'POST' && { secret: SECRET }) });
};

describe('cloche webhook', () => {
  it('cloche webhook prints the secret of a new webhook, and nothing else on standard output', async () => {
    const options = ['--events', 'sandbox.*,artifact.created', '--project', 'prj_1', '--description', 'chat'];
    const { stdout, exitCode, requests } = await run(always, 'create', webhook.url, ...options);
    assert.deepEqual([exitCode, stdout], [0, `${SECRET}\n`]);
    assert.deepEqual(requests[0]?.body, {
      url: webhook.url,
      events: ['sandbox.*', 'artifact.created'],
      projectId: 'prj_1',
      description: 'chat',
    });
    assert.equal((await run(always, 'rotate', 'whk_1')).stdout, `${SECRET}\n`);
  });

  it('cloche webhook lists, shows, changes and deletes webhooks, without their control characters', async () => {
    const { stdout } = await run(always, 'list');
    assert.match(stdout, /^ID +URL +EVENTS +STATE\nwhk_1 +https:\/\/example.com\/hook +sandbox.\* +disabled: gone\n$/);
    const shown = await run(always, 'get', 'whk_1');
    assert.match(shown.stdout, /description +chat/);
    assert.ok(!shown.stdout.includes('\u001b'));
    const changed = await run(always, 'update', 'whk_1', '--enable', '--events', '*');
    assert.deepEqual(changed.requests[0]?.body, { events: ['*'], enabled: true });
    const paused = await run(always, 'update', 'whk_1', '--disable', '--to', 'https://example.org');
    assert.deepEqual(paused.requests[0]?.body, { url: 'https://example.org', enabled: false });
    assert.equal((await run(always, 'delete', 'whk_1', 'whk_1')).stderr, 'whk_1 deleted\nwhk_1 deleted\n');
  });

  it('tests webhooks, lists deliveries and sends them again', async () => {
    assert.match((await run(always, 'test', 'whk_1')).stdout, /answer +503\n/);
    const { stdout } = await run(always, 'deliveries', 'whk_1', '--after', '0');
    assert.match(stdout, /^SEQ +ID +EVENT +STATUS +ATTEMPTS +ANSWER\n1 +dlv_1 +sandbox.ready +pending +2 +503\n$/);
    const resent = await run(always, 'resend', 'whk_1', 'dlv_1');
    assert.equal(resent.requests[0]?.path, '/v1/webhooks/whk_1/deliveries/dlv_1/resend');
  });
});

describe('cloche webhook listen', () => {
  it('cloche webhook listen forwards new events in order, signed, also when the program refuses one or is not there', async () => {
    const seen: unknown[] = [];
    const program = createServer(async (request, response) => {
      const body = (await buffer(request)).toString();
      seen.push(verifyWebhook(body, request.headers, SECRET));
      response.writeHead(seen.length === 1 ? 500 : 204).end();
      if (seen.length === 2) program.close();
    });
    program.listen(0, '127.0.0.1').unref();
    await once(program, 'listening');
    const { port } = program.address() as AddressInfo;
    const events = [6, 7, 8].map((seq) => ({ seq, id: `evt_${seq}`, type: 'project.created', data: {} }));
    const frames = events.map((each) => `id: ${each.seq}\nevent: ${each.type}\ndata: ${JSON.stringify(each)}\n\n`);
    const revoked = 'event: error\ndata: {"type":"error","data":{"name":"forbidden","message":"revoked"}}\n\n';
    const script: Script = ({ path }) =>
      path.startsWith('/v1/events/stream')
        ? eventStream([...frames, revoked])
        : json(200, { data: [], nextSeq: 5, hasMore: false });
    const args = ['listen', `http://127.0.0.1:${port}/`, '--secret', SECRET, '--events', 'project.*'];
    const { stdout, stderr, requests } = await run(script, ...args);
    assert.deepEqual(seen, events.slice(0, 2));
    const lines = stdout.trimEnd().split('\n');
    assert.deepEqual(lines.slice(0, 2), ['6 project.created evt_6: 500', '7 project.created evt_7: 204']);
    assert.match(lines[2] ?? '', /^8 project.created evt_8: .+/);
    assert.match(stderr, new RegExp(`signed with ${SECRET.replace(/[+/=]/g, '\\$&')}`));
    const stream = requests.find(({ path }) => path.startsWith('/v1/events/stream'));
    assert.deepEqual(
      ['afterSeq', 'types'].map((name) => new URL(stream?.path ?? '', 'http://x').searchParams.get(name)),
      ['5', 'project.*'],
    );
  });
});
