import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { dialer } from '../agent-endpoint.ts';
import { AgentHttpClient } from './agent-http-client.ts';

it('the client of an agent says how many runs keep it from pausing, and that what a closed gate refuses is pausing', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'cloche-agent-'));
  const unix = join(folder.path, 'agent.sock');
  const bodies: unknown[] = [];
  const refusals = new Map<string, object>([['/pause', { code: 'running', message: 'busy', running: 2 }]]);
  const server = createServer(async (request, response) => {
    bodies.push(JSON.parse((await request.toArray()).join('') || '{}'));
    const error = refusals.get(request.url ?? '');
    if (error) response.writeHead(409).end(JSON.stringify({ error }));
    else response.end(JSON.stringify({ isPaused: true }));
  }).listen(unix);
  await once(server, 'listening');
  const client = new AgentHttpClient(dialer({ unix }));
  const never = new AbortController().signal;
  try {
    assert.deepEqual(await client.pause('pse_1', { force: false }, never), { running: 2 });
    refusals.clear();
    assert.equal(await client.pause('pse_1', { force: true }, never), undefined);
    const woken = { entropy: Buffer.alloc(32).toString('base64'), now: 1 };
    await client.resume('pse_1', woken, never);
    assert.deepEqual(bodies, [
      { token: 'pse_1', force: false },
      { token: 'pse_1', force: true },
      { token: 'pse_1', ...woken },
    ]);
    refusals.set('/environment', { code: 'pausing', message: 'the gate is closed' });
    await assert.rejects(client.setEnvironment({}, never), { kind: 'pausing' });
    refusals.set('/pause', { code: 'not_found', message: 'The agent has no POST pause.' });
    await assert.rejects(client.pause('pse_1', { force: false }, never), { kind: 'not_found' });
  } finally {
    await client.close();
    server.closeAllConnections();
    server.close();
  }
});
