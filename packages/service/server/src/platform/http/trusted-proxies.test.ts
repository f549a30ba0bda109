import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openKeyWorld } from '../../../testing/keys.ts';

/** Returns the address of the client that the audit log has for a request with `X-Forwarded-For`. */
async function clientBehind(ranges: string, forwardedFor: string): Promise<string> {
  const world = await openKeyWorld(undefined, { CLOCHE_TRUSTED_PROXIES: ranges });
  try {
    const headers = { 'x-forwarded-for': forwardedFor };
    const { body, status } = await world.call('POST', '/v1/projects', { body: { name: 'x' }, headers });
    assert.equal(status, 201, JSON.stringify(body));
    const events = await world.call('GET', `/v1/audit-events?target=${body.project.id}`);
    return events.body.data[0].ip;
  } finally {
    await world.close();
  }
}

describe('the address of a client', () => {
  it('the address of a client is that of the connection without trusted proxies, whatever the client claims', async () => {
    assert.equal(await clientBehind('', '203.0.113.7'), '127.0.0.1');
    assert.equal(await clientBehind('10.0.0.0/8', '203.0.113.7'), '127.0.0.1');
  });

  it('the address of a client is what the last trusted proxy appended, and not what the client claimed before it', async () => {
    assert.equal(await clientBehind('127.0.0.1', '198.51.100.1, 203.0.113.7'), '203.0.113.7');
    assert.equal(await clientBehind('127.0.0.0/8, 10.0.0.0/8', '198.51.100.1, 203.0.113.7, 10.1.2.3'), '203.0.113.7');
    assert.equal(await clientBehind('127.0.0.0/8, fd00::/8', '2001:db8::7, fd00::1'), '2001:db8::7');
  });
});
