import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import picocolors from 'picocolors';
import type { Output } from './terminal.ts';
import { formatBytes, TransferBar } from './transfer-bar.ts';

function paper(isTerminal: boolean, columns = 100) {
  const written: string[] = [];
  const write = async (text: string) => {
    written.push(text);
  };
  const ofPrograms = { program: write, programLine: write, endProgram: async () => undefined };
  const colors = picocolors.createColors(false);
  const output: Output = { isTerminal, columns, colors, atLineStart: true, write, line: write, ...ofPrograms };
  return { output, written };
}

async function* chunks(count: number, bytes: number, tick: () => void) {
  for (let index = 0; index < count; index += 1) {
    tick();
    yield new Uint8Array(bytes);
  }
}

describe('the bar of a transfer', () => {
  for (const isTerminal of [true, false]) {
    it(
      isTerminal
        ? 'shows share, rate and time left, and is gone at the end'
        : 'is not drawn where output is not a terminal',
      async () => {
        let now = 0;
        const { output, written } = paper(isTerminal);
        const bar = new TransferBar(output, 'data', () => now);
        const source = chunks(4, 1_000_000, () => {
          now += 1000;
        });
        for await (const _ of bar.count(source, 4_000_000));
        assert.equal(bar.bytes, 4_000_000);
        if (!isTerminal) return assert.deepEqual(written, []);
        assert.match(
          written[1] ?? '',
          /data {2}█{12}░{12} {2}50% {2}1\.9 MiB of 3\.8 MiB {2}976\.6 KiB\/s {2}2 s left$/,
        );
        assert.match(written.at(-1) ?? '', /^\r[^█]*$/);
      },
    );
  }

  it('the bar of a transfer never breaks its line, however narrow the terminal and however long the name', async () => {
    for (const columns of [100, 80, 50, 20, 1]) {
      let now = 0;
      const { output, written } = paper(true, columns);
      const bar = new TransferBar(output, `${'n'.repeat(250)}\n\u001b[2J`, () => now);
      const source = chunks(4, 1_000_000, () => {
        now += 1000;
      });
      for await (const _ of bar.count(source, 4_000_000));
      const lines = written.map((text) => text.replace('\r\u001b[2K', ''));
      assert.ok(
        lines.every((line) => line.length < Math.max(columns, 2) && !/\p{Cc}/u.test(line)),
        `${lines}`,
      );
      if (columns >= 80)
        assert.match(lines[1] ?? '', /^n+… {2,}50% {2}1\.9 MiB of 3\.8 MiB {2}976\.6 KiB\/s {2}2 s left$/);
    }
  });

  it('the bar of a transfer is not drawn into bytes that go to the terminal', async () => {
    const out = paper(true);
    const err = paper(true);
    const bar = TransferBar.beside({ out: out.output, err: err.output }, 'data', { isStandard: true });
    await setTimeout(150);
    for await (const _ of bar.count(chunks(2, 10, () => undefined)));
    assert.deepEqual(err.written, []);
  });

  it('the bar of a transfer is drawn no more than ten times a second', async () => {
    let now = 0;
    const { output, written } = paper(true);
    const bar = new TransferBar(output, 'data', () => now);
    const source = chunks(1000, 10, () => {
      now += 1;
    });
    for await (const _ of bar.count(source));
    assert.ok(written.length <= 11, `${written.length}`);
  });
});

it('sizes are written in units of 1024 with one decimal, rounded before the unit is chosen', () => {
  const sizes = [0, 1023, 1024, 1536, 1024 ** 2 - 1, 300_000_000, 1024 ** 3, 12.34 * 1024 ** 3, 5 * 1024 ** 5];
  assert.deepEqual(sizes.map(formatBytes), [
    '0 B',
    '1023 B',
    '1.0 KiB',
    '1.5 KiB',
    '1.0 MiB',
    '286.1 MiB',
    '1.0 GiB',
    '12.3 GiB',
    '5.0 PiB',
  ]);
});
