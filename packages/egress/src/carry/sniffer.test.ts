import assert from 'node:assert/strict';
import { test } from 'node:test';
import { classify } from './sniffer.ts';

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
  ['a'.repeat(65), 'raw'],
  ['\x16', undefined],
  ['\x16\x03', 'tls'],
  ['\x16\x02', 'raw'],
  ['\x80\x2e', undefined],
  ['\x80\x2e\x01\x03\x01', 'tls'],
  ['\x80\x2e\x04', 'raw'],
];

for (const [bytes, protocol] of FORMS) {
  test(`${JSON.stringify(bytes.slice(0, 30))} is ${protocol ?? 'not enough to tell'}`, () => {
    assert.equal(classify(Buffer.from(bytes, 'latin1')), protocol);
  });
}
