import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { joined } from './joined.ts';

async function collected(texts: AsyncGenerator<string>): Promise<string[]> {
  const seen: string[] = [];
  for await (const text of joined(texts)) seen.push(text);
  return seen;
}

describe('texts of a stream', () => {
  it('texts of a stream that are there at once are joined, and one that comes later is sent by itself', async () => {
    let open = () => {};
    const later = new Promise<void>((resolve) => {
      open = resolve;
    });
    const texts = joined(
      (async function* () {
        yield 'a';
        yield 'b';
        await later;
        yield 'c';
      })(),
    );
    assert.equal((await texts.next()).value, 'ab');
    open();
    assert.equal((await texts.next()).value, 'c');
    assert.equal((await texts.next()).done, true);
  });

  it('texts of a stream come before the failure that follows them', async () => {
    const texts = joined(
      (async function* () {
        yield 'a';
        throw new Error('broken');
      })(),
    );
    assert.equal((await texts.next()).value, 'a');
    await assert.rejects(texts.next(), /broken/);
  });

  it('texts of a stream may be none', async () => assert.deepEqual(await collected((async function* () {})()), []));
});
