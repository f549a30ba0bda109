import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { assertError, type EchoService, pythonCode, runs, startEchoService } from '../../../testing/echo-service.ts';
import { bearerKey } from './credential-sources.ts';

let service: EchoService;

before(async () => {
  service = await startEchoService();
});
after(() => service.close());

describe('a key', () => {
  for (const header of [undefined, '', 'Bearer', 'Bearer x', 'Basic abc', `Bearer clk_${'a'.repeat(46)}`]) {
    it(`${header === undefined ? 'that is missing' : JSON.stringify(header)} is unauthorized`, async () => {
      const headers: Record<string, string> = header === undefined ? {} : { authorization: header };
      const answer = await service.call('GET', '/v1/sandboxes', { key: null, headers });
      assertError(answer, 'unauthorized', /key|Bearer/);
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
    });
  }

  it('a key is asked for before anything of the request is looked at', async () => {
    assertError(await service.call('POST', '/v1/sandboxes', { key: null, body: '{' }), 'unauthorized', /./);
  });

  it('a key needs the scope, before anything of the request is looked at', async () => {
    const key = await service.key(['sandbox:read']);
    const answer = await service.call('POST', '/v1/sandboxes', { key, body: '{' });
    assertError(answer, 'forbidden', /sandbox:create/);
    assert.equal(answer.body.error.details.requiredScope, 'sandbox:create');
  });

  it('a key may hold spaces, and none at its ends', () => {
    for (const header of ['Bearer a key of words', 'bearer   a key of words  ']) {
      assert.equal(bearerKey(header), 'a key of words');
    }
    assert.equal(bearerKey('Bearer    '), undefined);
  });

  it('a key is looked for in linear time, whatever the header holds', () => {
    const spaces = 500;
    const honest = `Bearer ${'k'.repeat(spaces)}`;
    const hostile = [
      `Bearer${' '.repeat(14_000)}${'x'.repeat(1100)}`,
      `bearer${' '.repeat(15_500)}\xff`,
      `Bearer${' '.repeat(spaces)}${'x'.repeat(spaces)}\xff`,
      `Bearer ${'x '.repeat(spaces)}\xff`,
    ];
    const longest = Math.max(...hostile.map(timeOf));
    assert.ok(longest < 50 * timeOf(honest), `${longest} and ${timeOf(honest)} ms`);
  });

  it('a key needs artifact:create to promote', async () => {
    const key = await service.key(['code:run']);
    const [method, path, options] = runs(pythonCode({ artifactPolicy: 'promote' }));
    const answer = await service.call(method, path, { ...options, key });
    assert.equal(answer.body.error.details.requiredScope, 'artifact:create');
    const [, , plain] = runs(pythonCode());
    assert.equal((await service.call(method, path, { ...plain, key })).status, 200);
  });

  it('a key needs command:run to create a sandbox with a start command', async () => {
    const key = await service.key(['sandbox:create']);
    const create = (body: object) => service.call('POST', '/v1/sandboxes', { key, body });
    const answer = await create({ startCommand: { command: 'true' } });
    assert.deepEqual([answer.status, answer.body.error.details.requiredScope], [403, 'command:run']);
    assert.equal((await create({ name: 'web' })).status, 201);
  });
});

/** Returns the milliseconds of the quickest of several rounds, which no other work has disturbed. */
function timeOf(header: string): number {
  const rounds = Array.from({ length: 20 }, () => {
    const before = performance.now();
    for (let count = 0; count < 10; count += 1) bearerKey(header);
    return performance.now() - before;
  });
  return Math.min(...rounds);
}
