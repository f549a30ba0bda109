/** A server whose connections to the database stand still, beside another one. It takes as long as a lease. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { SOCKETS } from '../../testing/postgres/postgres-server.ts';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { StallingProxy } from '../../testing/stalling-proxy.ts';
import { WholeServers } from '../../testing/whole-servers.ts';

const PATIENCE_MS = 120_000;

describe('a server that is cut off from the database', { skip: NEEDS_POSTGRES }, () => {
  it('ends its runs before another server executes them, is not ready, and comes back by itself', async () => {
    await using proxy = await StallingProxy.open(process.env[SOCKETS] ?? '');
    await using servers = await WholeServers.open(1);
    const host = encodeURIComponent(proxy.folder);
    const cutOff = await servers.start(servers.databaseUrl.replace(/host=.*$/, `host=${host}`));
    const sandboxId = await servers.readySandbox();
    const runs = `/v1/sandboxes/${sandboxId}/code/runs`;
    const send = (server: number) => servers.call(server, 'POST', runs, { code: 'hang', language: 'python' }, 'once');
    const agent = servers.driver.agentOf(sandboxId);
    const active = () => [...agent.contexts.values()].reduce((sum, context) => sum + context.runs.size, 0);

    let isAnswered = false;
    const first = send(cutOff).finally(() => {
      isAnswered = true;
    });
    await eventually(() => active() === 1, { because: 'the run has begun' });
    proxy.stall();
    const second = (async () => {
      let answer = await send(0);
      const isDecided = async () => {
        assert.ok(active() <= 1);
        answer = await send(0);
        return answer.body.error?.code !== 'idempotency_request_in_progress';
      };
      await eventually(isDecided, { within: PATIENCE_MS, because: 'the other server gets the record' });
      return answer;
    })();
    assert.equal((await first).body.error.code, 'unavailable');
    await eventually(() => active() === 0, { because: 'the run has ended' });
    assert.equal((await servers.call(cutOff, 'GET', '/readyz')).status, 503);
    assert.equal((await servers.call(cutOff, 'GET', '/v1/sandboxes')).body.error.code, 'unavailable');

    await eventually(() => active() === 1, { within: PATIENCE_MS, because: 'the other server executes the request' });
    assert.ok(isAnswered);
    const [contextId = ''] = agent.contexts.keys();
    await agent.client().interrupt(contextId, AbortSignal.timeout(PATIENCE_MS));
    const { status, body } = await second;
    assert.equal(status, 200);

    proxy.resume();
    const isReady = async () => (await servers.call(cutOff, 'GET', '/readyz')).status === 200;
    await eventually(isReady, { within: PATIENCE_MS, because: 'the server comes back' });
    assert.deepEqual((await send(cutOff)).body, body);
    assert.equal(active(), 0);
  });
});
