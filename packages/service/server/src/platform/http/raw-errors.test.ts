import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type EchoService, startEchoService } from '../../../testing/echo-service.ts';

let service: EchoService;

before(async () => {
  service = await startEchoService();
});
after(() => service.close());

describe('bytes that are no proper request', () => {
  const answered = async (bytes: string, halfClose = false) => {
    const text = await service.raw(bytes, { halfClose });
    const [head = '', body = ''] = text.split('\r\n\r\n');
    assert.match(head, /^HTTP\/1\.1 4\d\d /);
    assert.match(head, /content-type: application\/json/i);
    const { error } = JSON.parse(body);
    assert.match(head, new RegExp(`x-request-id: ${error.requestId}`, 'i'));
    return error;
  };

  it('bytes that are no proper request that are no HTTP are refused in JSON', async () => {
    assert.match((await answered('hello\r\n\r\n')).message, /not valid HTTP/);
  });

  it('bytes that are no proper request with headers over the limit are refused in JSON', async () => {
    const error = await answered(`GET / HTTP/1.1\r\nhost: x\r\na: ${'x'.repeat(20_000)}\r\n\r\n`);
    assert.match(error.message, /16384 bytes/);
  });

  it('bytes that are no proper request with a URL over the limit are refused in JSON', async () => {
    assert.match((await answered(`GET /${'x'.repeat(20_000)} HTTP/1.1\r\nhost: x\r\n\r\n`)).message, /16384 bytes/);
  });

  it('bytes that are no proper request without a Host are refused in JSON', async () => {
    assert.match((await answered('GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n')).message, /headers.host/);
  });

  it('bytes that are no proper request with a body that ends too early are refused in JSON', async () => {
    const key = `authorization: Bearer ${await service.key()}`;
    const head = `POST /v1/sandboxes HTTP/1.1\r\nhost: x\r\n${key}\r\ncontent-type: application/json\r\ncontent-length: 9`;
    assert.equal((await answered(`${head}\r\n\r\n{}`, true)).code, 'invalid_request');
  });

  it('bytes that are no proper request with an expectation that cannot be met are refused in JSON', async () => {
    const error = await answered('GET / HTTP/1.1\r\nhost: x\r\nexpect: miracles\r\nconnection: close\r\n\r\n');
    assert.match(error.message, /headers.expect/);
  });

  it('bytes that are no proper request that ask for a tunnel are refused in JSON', async () => {
    assert.equal((await answered('CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n')).code, 'method_not_allowed');
  });
});
