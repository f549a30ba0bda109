import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { describe, it } from 'node:test';
import { sendBody } from './byte-transfer.ts';
import { LentBytes } from './lent-bytes.ts';

const PIECES = [Buffer.from('one '), Buffer.from('two '), Buffer.from('three')];

/** Returns a body that lends all pieces at once. */
function lentPieces(): LentBytes {
  return new LentBytes({
    async lend(take) {
      for (const piece of PIECES) take(piece, () => undefined);
    },
    close: () => undefined,
  });
}

/** Takes one piece per turn of the event loop, and keeps the number of bytes that it had not taken when it was ended. */
class SlowTarget extends Writable {
  readonly taken: Buffer[] = [];
  untakenAtEnd: number | undefined;

  override _write(piece: Buffer, _encoding: string, done: () => void): void {
    setImmediate(() => {
      this.taken.push(piece);
      done();
    });
  }

  override end(): this {
    this.untakenAtEnd = this.writableLength;
    return super.end();
  }
}

describe('a lent body', () => {
  it('a lent body is taken as a whole before its target is ended, because an answer may close the connection then', async () => {
    const target = new SlowTarget();
    await sendBody(lentPieces(), target);
    assert.equal(target.untakenAtEnd, 0);
    assert.equal(Buffer.concat(target.taken).toString(), 'one two three');
  });

  it('a lent body is not waited for when its target closes early', async () => {
    const target = new SlowTarget();
    target._write = () => undefined;
    setImmediate(() => target.destroy());
    await assert.rejects(sendBody(lentPieces(), target), { code: 'ERR_STREAM_PREMATURE_CLOSE' });
  });
});
