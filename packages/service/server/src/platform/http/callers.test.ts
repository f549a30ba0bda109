import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { Callers } from './callers.ts';
import { trustedProxies } from './trusted-proxies.ts';

test('a request over a Unix socket has a client without an address, behind a load balancer too', () => {
  for (const trusts of [undefined, trustedProxies(true, [])]) {
    const callers = new Callers(Buffer.alloc(32), trusts);
    const request = new IncomingMessage(new Socket());
    assert.equal(callers.addressOf(request), '');
    callers.introduce(request);
    assert.equal(callers.introduced(request), '');
  }
});
