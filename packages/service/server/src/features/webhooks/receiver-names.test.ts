/** How names of receivers are resolved, by the resolver of the service against a name server on a real socket. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { describe, it } from 'node:test';
import { startDnsServer } from '../../../testing/dns-server.ts';
import { startReceiver } from '../../../testing/webhooks.ts';
import { TargetGuard } from './target-guard.ts';
import { type SenderOptions, WebhookSender } from './webhook-sender.ts';

const NEVER = new AbortController().signal;
const REFUSED = { kind: 'failed', error: 'the host of the URL has no public address' };
const OPEN = '127.0.0.1';
const CLOSED = '127.0.0.2';

function senderFor(options: SenderOptions, allowed: readonly string[] = [OPEN]): WebhookSender {
  return new WebhookSender(new TargetGuard({ allowHttp: true, allowCidrs: allowed, denyCidrs: [] }), options);
}

async function post(sender: WebhookSender, port: number) {
  await using receiver = sender.open(`http://rebinding.example:${port}/`);
  return receiver.post({}, '{}', NEVER);
}

/** Starts the receiver of the closed address, at the port of the open one. */
async function startClosed(port: number) {
  let requests = 0;
  const server = createServer((_, response) => {
    requests += 1;
    response.writeHead(204).end();
  });
  server.listen(port, CLOSED);
  await once(server, 'listening');
  return {
    requests: () => requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

describe('the name of a receiver', () => {
  it('the name of a receiver is looked up once for the messages of a turn, whatever DNS answers later', async () => {
    await using receiver = await startReceiver((response) => response.writeHead(204, { connection: 'close' }).end());
    await using closed = await startClosed(receiver.port);
    await using dns = await startDnsServer((query) => [query === 1 ? OPEN : CLOSED]);
    await using opened = senderFor({ dnsServers: [dns.address] }).open(`http://rebinding.example:${receiver.port}/`);
    for (let count = 0; count < 3; count += 1) assert.equal((await opened.post({}, '{}', NEVER)).kind, 'answered');
    assert.deepEqual([dns.queries(), receiver.received.length, closed.requests()], [1, 3, 0]);
  });

  it('the name of a receiver is checked at each look, so one that has a closed address at the second look reaches nothing then', async () => {
    await using receiver = await startReceiver();
    await using closed = await startClosed(receiver.port);
    await using dns = await startDnsServer((query) => [query === 1 ? OPEN : CLOSED]);
    const sender = senderFor({ dnsServers: [dns.address] });
    assert.equal((await post(sender, receiver.port)).kind, 'answered');
    assert.deepEqual(await post(sender, receiver.port), REFUSED);
    assert.deepEqual([dns.queries(), receiver.received.length, closed.requests()], [2, 1, 0]);
    // Control: where that address is permitted, the same look leads there.
    const permitting = senderFor({ dnsServers: [dns.address] }, [OPEN, CLOSED]);
    assert.equal((await post(permitting, receiver.port)).kind, 'answered');
    assert.equal(closed.requests(), 1);
  });

  it('the name of a receiver leads to an open address among closed ones', async () => {
    await using receiver = await startReceiver();
    await using closed = await startClosed(receiver.port);
    await using dns = await startDnsServer(() => [CLOSED, '10.0.0.1', OPEN]);
    assert.equal((await post(senderFor({ dnsServers: [dns.address] }), receiver.port)).kind, 'answered');
    assert.deepEqual([receiver.received.length, closed.requests()], [1, 0]);
  });

  it('the name of a receiver costs an attempt no more than its time when DNS does not answer', async () => {
    await using dns = await startDnsServer(() => undefined);
    const sender = senderFor({ dnsServers: [dns.address], attemptMs: 300 });
    const begun = performance.now();
    assert.deepEqual(await post(sender, 80), { kind: 'failed', error: 'no answer within 15 seconds' });
    assert.ok(performance.now() - begun < 3_000);
  });
});
