import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PullProgress } from './pull-progress.ts';

const MEBIBYTE = 1024 * 1024;
const LAYER = { digest: `sha256:${'a'.repeat(64)}`, size: 100 * MEBIBYTE };
const TITLE = 'Layer 2 of 2 (sha256:aaaaaaaaaaaa)';

function recorded() {
  const lines: string[] = [];
  const clock = { now: 0 };
  const progress = new PullProgress(
    (line) => lines.push(line),
    () => clock.now,
  );
  progress.begin([{ digest: `sha256:${'0'.repeat(64)}`, size: 1 }, LAYER]);
  return { lines, clock, progress, watch: progress.watch(LAYER) };
}

describe('the progress of a download', () => {
  /** Pieces of a layer of 100 MiB that come each so many milliseconds, and how many lines tell of them. */
  const rates: readonly [what: string, pieceMiB: number, eachMs: number, lines: number][] = [
    ['at once', 100, 1, 0],
    ['within two seconds', 1, 10, 0],
    ['in ten seconds', 1, 100, 4],
    ['in a minute', 1, 600, 9],
    ['in ten minutes', 1, 6_000, 19],
    ['in an hour, with pieces of a kilobyte', 1 / 64, 36_000 / 64, 119],
  ];
  for (const [what, pieceMiB, eachMs, expected] of rates) {
    it(`the progress of a download has a line at most each 2 s and each 10 %, and at least each 30 s: ${what}`, () => {
      const { lines, clock, watch } = recorded();
      for (let bytes = 0; bytes < LAYER.size; ) {
        clock.now += eachMs;
        bytes += pieceMiB * MEBIBYTE;
        watch.grew(bytes);
      }
      assert.ok(Math.abs(lines.length - expected) <= 1, `${lines.length}: ${lines.slice(0, 3).join('\n')}`);
      for (const line of lines) assert.match(line, /^Layer 2 of 2 \(sha256:a{12}\): \d+\.\d of 100\.0 MiB$/);
    });
  }

  it('the progress of a download says where a connection broke, and how long a layer took', () => {
    const { lines, progress, watch } = recorded();
    watch.cutOff(12.5 * MEBIBYTE);
    progress.ended(LAYER, 1234);
    assert.deepEqual(lines, [
      `${TITLE}: the connection broke after 12.5 of 100.0 MiB; the download goes on`,
      `${TITLE}: 100.0 MiB downloaded in 1.2 s`,
    ]);
  });

  it('the progress of a download has no line about the configuration of the image', () => {
    const { lines, progress } = recorded();
    const config = { digest: `sha256:${'c'.repeat(64)}`, size: 10 };
    progress.watch(config).cutOff(1);
    progress.ended(config, 1);
    assert.deepEqual(lines, []);
  });
});
