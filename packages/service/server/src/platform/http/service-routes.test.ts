import assert from 'node:assert/strict';
import { readdirSync, readlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { Readiness } from '@cloche/contract';
import { Value } from 'typebox/value';
import { type EchoService, startEchoService } from '../../../testing/echo-service.ts';

let service: EchoService;

before(async () => {
  service = await startEchoService();
});
after(() => service.close());

describe('the pages for operators and readers', () => {
  it('the pages for operators and readers need no key', async () => {
    for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json', '/docs']) {
      assert.equal((await service.call('GET', path, { key: null })).status, 200, path);
    }
    assert.equal((await service.call('GET', '/', { key: null })).headers.get('location'), '/docs');
  });

  it('the pages for operators and readers show the API with nothing from elsewhere, under a content security policy', async () => {
    const page = await service.call('GET', '/docs', { key: null });
    assert.match(page.headers.get('content-security-policy') ?? '', /default-src 'self'/);
    assert.doesNotMatch(page.text, /(src|href)="https?:/);
    for (const [, asset] of page.text.matchAll(/(?:src|href)="([^"]+)"/g)) {
      const { status } = await service.call('GET', String(asset), { key: null });
      assert.equal(status, 200, String(asset));
    }
    const style = await service.call('GET', '/docs/static/theme/cloche.css', { key: null });
    assert.match(style.text, /\.topbar \{ display: none/);
    assert.match(page.text, /cloche\.css/);
  });

  it('the pages for operators and readers have their files from memory: an answer that nobody reads holds no descriptor', async () => {
    const file = '/docs/static/swagger-ui-bundle.js';
    const { hostname, port } = new URL(service.url);
    const sockets = Array.from({ length: 8 }, () => connect(Number(port), hostname).on('error', () => undefined));
    try {
      for (const socket of sockets) socket.pause().write(`GET ${file} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(8));
      // Answers have begun at each of the connections.
      await Promise.all(sockets.map((socket) => new Promise((resolve) => socket.once('readable', resolve))));
      assert.deepEqual(
        openFiles().filter((path) => path.includes('swagger-ui/static')),
        [],
      );
    } finally {
      for (const socket of sockets) socket.destroy();
    }
    const whole = connect(Number(port), hostname);
    whole.write(`GET ${file} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    const [head = '', body = ''] = (await text(whole)).split('\r\n\r\n', 2);
    assert.match(head, /content-type: text\/javascript/i);
    assert.match(body, /SwaggerUIBundle/);
  });

  it('the pages for operators and readers say what keeps sandboxes from the network, with status 200, because code runs', async () => {
    const warning = { check: 'sandbox_dns', message: 'It drops DNS queries.', remedy: 'Run `ufw allow in on cl+`.' };
    service.warn([warning]);
    const answer = await service.call('GET', '/readyz', { key: null });
    service.warn([]);
    assert.equal(answer.status, 200);
    assert.deepEqual(JSON.parse(answer.text), { status: 'ready', warnings: [warning] });
    assert.ok(Value.Check(Readiness, JSON.parse(answer.text)));
  });

  it('the pages for operators and readers say when the service is not ready, without the reason', async () => {
    service.failCheck(new Error('secret socket'));
    const answer = await service.call('GET', '/readyz', { key: null });
    service.failCheck(undefined);
    assert.equal(answer.status, 503);
    assert.doesNotMatch(answer.text, /secret/);
  });

  it('the pages for operators and readers count requests by operation and status, and what came of their keys', async () => {
    await service.call('GET', '/v1/sandboxes');
    for (const idempotencyKey of ['same', 'same']) await service.call('POST', '/v1/sandboxes', { idempotencyKey });
    const { text } = await service.call('GET', '/metrics', { key: null });
    assert.match(text, /cloche_http_request_duration_seconds_count\{operation="listSandboxes",status="200"\} \d/);
    assert.match(text, /cloche_idempotency_total\{outcome="replayed"\} \d/);
  });
});

/** Returns the paths of the files that this process has open. */
function openFiles(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      // Closed meanwhile, as that of the folder itself.
      return [];
    }
  });
}
