import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { it } from 'node:test';
import { type FilesSession, patience, refused, sourceOf } from './files-session.ts';

/** Large enough for the agent to read the body directly from the socket, past its HTTP parser. */
const LARGE = Buffer.alloc(3_000_001, 'cloche');

/** Declares the tests of how the contents of files are read and written. */
export function declareContentTests(session: FilesSession): void {
  const { put, read, content, names } = session;

  it('are read as they were written, small and large', async () => {
    for (const bytes of [Buffer.alloc(0), Buffer.from('text'), LARGE]) {
      for (const sizeBytes of [bytes.length, undefined]) {
        const file = await session.files.write('a/b/file', { ...sourceOf(bytes), sizeBytes }, {}, patience());
        assert.deepEqual(
          [file.path, file.name, file.type, file.sizeBytes],
          ['/workspace/a/b/file', 'file', 'file', bytes.length],
        );
        const found = await read('/workspace/a/b/../b/file');
        assert.deepEqual([found.status, found.sizeBytes, found.etag], [200, bytes.length, file.etag]);
        assert.ok((await buffer(found.body)).equals(bytes));
      }
    }
    assert.deepEqual(await names('.'), ['/workspace/a', '/workspace/a/b', '/workspace/a/b/file']);
  });

  it('have an ETag that each write changes, and keep their mode unless a write names one', async () => {
    const first = await put('tagged', 'one');
    assert.equal(first.mode, 0o644);
    assert.equal((await session.files.stat('tagged', patience())).etag, first.etag);
    const second = await put('tagged', 'two', { mode: '0750' });
    assert.notEqual(second.etag, first.etag);
    assert.deepEqual([second.mode, (await put('tagged', 'three')).mode], [0o750, 0o750]);
  });

  it('are read in one range, from either end', async () => {
    await put('ranged', '0123456789');
    for (const [range, expected, contentRange] of [
      ['bytes=2-4', '234', 'bytes 2-4/10'],
      ['bytes=7-', '789', 'bytes 7-9/10'],
      ['bytes=8-100', '89', 'bytes 8-9/10'],
      ['bytes=-3', '789', 'bytes 7-9/10'],
      ['bytes=-100', '0123456789', 'bytes 0-9/10'],
    ] as const) {
      const part = await read('ranged', { headers: { range } });
      assert.deepEqual([part.status, part.contentRange, part.sizeBytes], [206, contentRange, expected.length], range);
      assert.equal(await text(part.body), expected, range);
    }
    for (const range of ['bytes=0-1,3-4', 'bytes=5-2', 'lines=1-2', 'bytes=-']) {
      const whole = await read('ranged', { headers: { range } });
      assert.deepEqual([whole.status, await text(whole.body)], [200, '0123456789'], range);
    }
    for (const range of ['bytes=10-', 'bytes=-0']) {
      const refused = read('ranged', { headers: { range } });
      await assert.rejects(refused, { kind: 'range_not_satisfiable', details: { sizeBytes: 10 } }, range);
    }
  });

  it('are read as their conditions have it, and described without their bytes', async () => {
    const { etag = '' } = await put('known', 'text');
    const same = await read('known', { headers: { 'if-none-match': `"other", ${etag}` } });
    assert.deepEqual([same.status, same.sizeBytes, await text(same.body)], [304, undefined, '']);
    const statusOf = async (headers: Record<string, string>) => {
      const { status, body } = await read('known', { headers });
      await buffer(body);
      return status;
    };
    assert.equal(await statusOf({ 'if-none-match': '"other"' }), 200);
    assert.equal(await statusOf({ 'if-match': etag }), 200);
    assert.equal(await statusOf({ range: 'bytes=0-1', 'if-range': etag }), 206);
    assert.equal(await statusOf({ range: 'bytes=0-1', 'if-range': '"other"' }), 200);
    await refused('precondition_failed', () => read('known', { headers: { 'if-match': '"other"' } }));
    const head = await read('known', { headOnly: true });
    assert.deepEqual([head.status, head.sizeBytes, head.etag, await text(head.body)], [200, 4, etag, '']);
  });

  it('are written as their conditions have it, and what is refused is not even opened', async () => {
    const { etag = '' } = await put('guarded', 'one');
    const write = (path: string, headers: Record<string, string>, sizeBytes?: number) => {
      const open = () => assert.fail('opened');
      return session.files.write(path, { sizeBytes, open }, { headers }, patience());
    };
    await refused('precondition_failed', () => write('guarded', { 'if-none-match': '*' }));
    await refused('precondition_failed', () => write('guarded', { 'if-match': '"other"' }));
    await refused('precondition_failed', () => write('nothing', { 'if-match': '*' }));
    await refused('disk_full', () => write('guarded', {}, 2 ** 50));
    assert.equal(await content('guarded'), 'one');
    await put('guarded', 'two', { headers: { 'if-match': etag } });
    await refused('precondition_failed', () => write('guarded', { 'if-match': etag }));
    await put('fresh', 'new', { headers: { 'if-none-match': '*' } });
    assert.deepEqual([await content('guarded'), await content('fresh')], ['two', 'new']);
  });

  it('stay as they were when what replaces them breaks off', async () => {
    await put('kept', 'old');
    async function* broken() {
      yield Buffer.from('some');
      throw new Error('broke');
    }
    for (const path of ['kept', 'new/file']) {
      const source = { open: () => Readable.from(broken()) };
      await assert.rejects(session.files.write(path, source, {}, patience()));
    }
    assert.equal(await content('kept'), 'old');
    // Removing the new folders may take a moment after the rejection.
    while ((await names('.')).length > 1) patience().throwIfAborted();
    assert.deepEqual(await names('.'), ['/workspace/kept']);
  });
}
