import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { FastifyRequest } from 'fastify';
import { keyOf } from './client-key.ts';

const keyIn = (headers: Record<string, string>) => keyOf({ headers } as unknown as FastifyRequest);
const basic = (text: string) => ({ authorization: `Basic ${Buffer.from(text).toString('base64')}` });

describe('the key of a request', () => {
  it('is X-Api-Key, a bearer token, or the password or else the name of Basic authentication', () => {
    assert.equal(keyIn({ 'x-api-key': 'clk_a', authorization: 'Bearer clk_b' }), 'clk_a');
    assert.equal(keyIn({ authorization: 'bearer clk_b' }), 'clk_b');
    assert.equal(keyIn(basic('key:clk_c:d')), 'clk_c:d');
    assert.equal(keyIn(basic('clk_e:')), 'clk_e');
    assert.equal(keyIn(basic('clk_f')), 'clk_f');
  });

  it('is missing in other headers, which is refused with 401', () => {
    for (const headers of [
      {},
      { 'x-api-key': '' },
      { authorization: 'Digest clk_a' },
      { authorization: 'Bearer ' },
      basic(':'),
    ])
      assert.throws(() => keyIn(headers as Record<string, string>), { status: 401 });
  });
});
