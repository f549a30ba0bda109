import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ClocheError, isClocheError } from '@cloche/sdk';
import { pino } from 'pino';
import { GatewayError } from './gateway-error.ts';
import { translateError } from './translate-error.ts';

const lines: string[] = [];
const log = pino({}, { write: (line: string) => void lines.push(line) });
const isGone = (error: unknown) => isClocheError(error, 'sandbox_destroyed');
const translated = (error: unknown) => translateError(error, { log, client: 'a client', isGone });

/** The failure, the status of the response, and its headers. */
const CASES: readonly [string, unknown, number, object?][] = [
  ['own refusal', new GatewayError(429, 'wait', { 'retry-after': '3' }), 429, { 'retry-after': '3' }],
  ['refusal of /v1', new ClocheError('forbidden', 'no', { status: 403 }), 403],
  [
    'refusal of /v1 with a pause',
    new ClocheError('rate_limited', 'later', { status: 429, retryAfterMs: 1200 }),
    429,
    { 'retry-after': '2' },
  ],
  ['sandbox that has ended', new ClocheError('sandbox_destroyed', 'ended', { status: 409 }), 404],
  ['identifier that the SDK does not send', new ClocheError('invalid_options', '".." is no id'), 400],
  ['service that does not answer', new ClocheError('unreachable', 'no answer'), 503],
  ['request that the app refuses', Object.assign(new Error('too large'), { statusCode: 413 }), 413],
  ['failure of the app', Object.assign(new Error('secret'), { statusCode: 500 }), 500],
  ['fault of the gateway', new TypeError('secret'), 500],
];

describe('a failed request of a gateway', () => {
  for (const [what, error, status, headers = {}] of CASES) {
    it(`a failed request of a gateway is answered with ${status}: ${what}`, () => {
      const answer = translated(error);
      assert.deepEqual([answer.status, answer.headers], [status, headers]);
      assert.doesNotMatch(answer.message, /secret/);
    });
  }

  it('a failed request of a gateway is logged only when it is a fault of the service', () => {
    lines.length = 0;
    for (const [, error] of CASES) translated(error);
    assert.deepEqual(
      lines.map((line) => JSON.parse(line).err.message),
      ['secret', 'secret'],
    );
  });
});
