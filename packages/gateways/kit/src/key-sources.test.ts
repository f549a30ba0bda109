import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  basicPassword,
  bearer,
  type KeyedRequest,
  type KeySource,
  keyFrom,
  queryToken,
  token,
  xApiKey,
} from './key-sources.ts';

const basic = (text: string) => ({ authorization: `Basic ${Buffer.from(text).toString('base64')}` });

describe('a source of keys', () => {
  const found: readonly [string, KeySource, KeyedRequest['headers'], string | undefined][] = [
    ['X-Api-Key', xApiKey, { 'x-api-key': 'clk_a' }, 'clk_a'],
    ['an empty X-Api-Key', xApiKey, { 'x-api-key': '' }, undefined],
    ['a bearer token', bearer, { authorization: 'Bearer clk_b' }, 'clk_b'],
    ['a bearer token in lower case', bearer, { authorization: 'bearer   clk_b' }, 'clk_b'],
    ['an empty bearer token', bearer, { authorization: 'Bearer ' }, undefined],
    ['a key without a scheme', bearer, { authorization: 'clk_b' }, undefined],
    ['another scheme', bearer, { authorization: 'Digest clk_b' }, undefined],
    ['the scheme token', token, { authorization: 'token clk_c' }, 'clk_c'],
    ['the scheme token, but a bearer', token, { authorization: 'Bearer clk_c' }, 'clk_c'],
    ['a password', basicPassword, basic('key:clk_d:e'), 'clk_d:e'],
    ['a name without a password', basicPassword, basic('clk_e:'), 'clk_e'],
    ['a name alone', basicPassword, basic('clk_f'), 'clk_f'],
    ['neither name nor password', basicPassword, basic(':'), undefined],
  ];
  for (const [name, source, headers, key] of found) {
    it(`a source finds ${key === undefined ? 'no key' : 'the key'} in ${name}`, () => {
      assert.equal(source({ headers }), key);
    });
  }

  it('a source finds the key in the query, decoded', () => {
    assert.equal(queryToken({ headers: {}, url: '/api/kernels?session=1&token=clk%5Fg' }), 'clk_g');
    for (const url of [undefined, '/api', '/api?', '/api?token=', '/api?tokens=clk_g'])
      assert.equal(queryToken({ headers: {}, url }), undefined);
  });
});

describe('the key of a request', () => {
  const keyIn = (request: KeyedRequest) => keyFrom(request, [xApiKey, bearer, queryToken], 'put it there.');

  it('the key of a request is that of the first source that has one', () => {
    assert.equal(keyIn({ headers: { 'x-api-key': 'clk_a', authorization: 'Bearer clk_b' } }), 'clk_a');
    assert.equal(keyIn({ headers: { authorization: 'Bearer clk_b' }, url: '/?token=clk_c' }), 'clk_b');
  });

  it('the key of a request is never one that a header cannot hold', () => {
    for (const text of ['ä', 'a\r\nx: y', '\u007f', ' a', '\u0000'])
      assert.equal(
        keyIn({ headers: { 'x-api-key': text, authorization: 'Bearer clk_b' } }),
        'clk_b',
        JSON.stringify(text),
      );
  });

  it('the key of a request without one is asked for with 401', () => {
    const refused = { status: 401, message: 'The API key is missing: put it there.' };
    assert.throws(() => keyIn({ headers: {} }), refused);
    assert.throws(() => keyFrom({ headers: {} }, [], 'x', { 'www-authenticate': 'Bearer' }), {
      headers: { 'www-authenticate': 'Bearer' },
    });
  });
});
