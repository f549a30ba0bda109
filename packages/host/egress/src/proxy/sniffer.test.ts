import assert from 'node:assert/strict';
import { test } from 'node:test';
import { classify, isHttpServer } from './sniffer.ts';

const FORMS: [bytes: string, protocol: string | undefined][] = [
  ['', undefined],
  ['G', undefined],
  ['GET / HTTP/1.1', undefined],
  ['GET / HTTP/1.1\r\n', 'http'],
  ['get\t/ http/1.0\n', 'http'],
  ['GET /\r\n', 'http'],
  ['\r\n', 'http'],
  [' ', 'http'],
  ['ANY-METHOD x HTTP/9\r\n', 'http'],
  ['PRI * HTTP/2.0\r\n', 'http'],
  ['PROXY TCP4 1.1.1.1 2.2.2.2 1 2\r\n', 'http'],
  [`GET /${'a'.repeat(9000)}`, 'http'],
  ['SSH-2.0-OpenSSH\r\n', 'raw'],
  ['HELO example\r\n', 'raw'],
  ['*1\r\n', 'raw'],
  ['\0\x01', 'raw'],
  ['\x10\x0c\0\x04MQTT', 'raw'],
  ['a'.repeat(64), undefined],
  ['a'.repeat(65), 'http'],
  ['\x13', 'raw'],
  ['\x14', 'tls'],
  ['\x15\x03\x01\0\x02\x01\x5a', 'tls'],
  ['\x16', 'tls'],
  ['\x16\x03\x01\0\0', 'tls'],
  ['\x17', 'tls'],
  ['\x18', 'tls'],
  ['\x19', 'raw'],
  ...[0x0b, 0x0c, 0x0d, 0x1c, 0x1d, 0x1e, 0x1f, 0x20, 0x85, 0xa0].flatMap((code): [string, string][] => {
    const blank = String.fromCharCode(code);
    return [
      [`GET${blank}/ HTTP/1.1\r\n`, 'http'],
      [`GET${blank}/\r\n`, 'http'],
      [`${blank}GET / HTTP/1.1\r\n`, 'http'],
    ];
  }),
  ['HEAD /\r\n', 'http'],
  ['\r\n\0\r\nQUIT\n', 'http'],
  // A bind of LDAP, a query of MongoDB, AMQP.
  ['0\x0c\x02\x01\x01\x60\x07', 'raw'],
  ['A\0\0\0', 'raw'],
  ['AMQP\0\0\x09\x01', 'raw'],
  ['\x80\x2e', undefined],
  ['\x80\x2e\x01\x03\x01', 'tls'],
  ['\x80\x2e\x04', 'raw'],
];

for (const [bytes, protocol] of FORMS) {
  test(`${JSON.stringify(bytes.slice(0, 30))} is ${protocol ?? 'not enough to tell'}`, () => {
    assert.equal(classify(Buffer.from(bytes, 'latin1')), protocol);
  });
}

const GREETINGS: [bytes: string, isHttp: boolean][] = [
  ['220 mail.example ESMTP\r\n', false],
  ['SSH-2.0-OpenSSH\r\n', false],
  ['\x4a\0\0\0\x0a8.0', false],
  ['\0\0\0\x08', false],
  ['\0', false],
  ['\0\0\x12\x04\0\0\0\0\0', true],
  ['\0\0\0\x04\0\0\0\0\0', true],
  ['HTTP/1.0 408 Request Time-out\r\n', true],
  ['\x15\x03\x01\0\x02', true],
];

for (const [bytes, isHttp] of GREETINGS) {
  test(`a server that begins with ${JSON.stringify(bytes)} ${isHttp ? 'speaks' : 'does not speak'} HTTP`, () => {
    assert.equal(isHttpServer(Buffer.from(bytes, 'latin1')), isHttp);
  });
}
