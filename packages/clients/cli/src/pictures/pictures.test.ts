import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { widthOf } from '../terminal/width.ts';
import { drawChart } from './chart-drawing.ts';
import { drawn, MAX_BYTES, protocolOf, sizeOf } from './inline-picture.ts';

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
);
/** Head of a JPEG of 32 by 16 pixels. */
const JPEG = Buffer.from('ffd8ffe000104a46494600010100000100010000ffc0000b080010002001011100ffd9', 'hex');

/** Returns a picture with another size in its head. */
function sized(width: number, height: number): Buffer {
  const picture = Buffer.from(PNG);
  picture.writeUInt32BE(width, 16);
  picture.writeUInt32BE(height, 20);
  return picture;
}

describe('a picture', () => {
  it('arrives in kitty in parts of its protocol, byte by byte the same', () => {
    const large = Buffer.concat([PNG, Buffer.alloc(20_000, 7)]);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the sequence that is looked for.
    const parts = [...(drawn(large, 'kitty') ?? '').matchAll(/\u001b_G([^;]*);([^\u001b]*)\u001b\\/g)];
    assert.ok(parts.length > 1 && parts.every(([, , content = '']) => content.length <= 4096));
    assert.deepEqual(parts.map(([, keys]) => keys).slice(0, 2), ['f=100,a=T,q=2,m=1', 'm=1']);
    assert.equal(parts.at(-1)?.[1], 'm=0');
    assert.deepEqual(Buffer.from(parts.map(([, , content]) => content).join(''), 'base64'), large);
  });

  it('arrives in iTerm2 as one sequence, a JPEG too', () => {
    for (const picture of [PNG, JPEG]) {
      const sequence = drawn(picture, 'iterm2') ?? '';
      const [begin = '', content = ''] = sequence.split(':');
      assert.equal(begin, `\u001b]1337;File=inline=1;size=${picture.length}`);
      assert.ok(content.endsWith('\u0007\n'));
      assert.deepEqual(Buffer.from(content.slice(0, -2), 'base64'), picture);
    }
    assert.deepEqual(sizeOf(JPEG), { format: 'jpeg', width: 32, height: 16 });
  });

  for (const [what, picture] of [
    ['30,000 pixels wide', sized(30_000, 1)],
    ['30,000 pixels high', sized(1, 30_000)],
    ['without a width', sized(0, 1)],
    ['of too many bytes', Buffer.concat([PNG, Buffer.alloc(MAX_BYTES)])],
    ['that is text', Buffer.from('not a picture, but long enough to be one')],
    ['that is empty', Buffer.alloc(0)],
    ['cut in its head', PNG.subarray(0, 20)],
    ['that is a GIF', Buffer.from('R0lGODlhAQABAAAAACw=', 'base64')],
    ['of a JPEG without a size', Buffer.from('ffd8ffe00010', 'hex')],
    ['of escape sequences', Buffer.from('\u001b_Ga=d\u001b\\')],
  ] as const)
    it(`${what} is not drawn`, () => {
      assert.deepEqual([drawn(picture, 'kitty'), drawn(picture, 'iterm2')], [undefined, undefined]);
    });

  it('a picture is sent to terminals that draw it, and to none below tmux or in CI', () => {
    for (const [env, protocol] of [
      [{ KITTY_WINDOW_ID: '1' }, 'kitty'],
      [{ TERM: 'xterm-ghostty' }, 'kitty'],
      [{ TERM_PROGRAM: 'iTerm.app' }, 'iterm2'],
      [{ TERM_PROGRAM: 'WezTerm' }, 'iterm2'],
      [{ LC_TERMINAL: 'iTerm2' }, 'iterm2'],
      [{ TERM: 'xterm-256color' }, 'none'],
      [{ KITTY_WINDOW_ID: '1', TMUX: '/tmp/x' }, 'none'],
      [{ KITTY_WINDOW_ID: '1', CI: 'true' }, 'none'],
      [{ KITTY_WINDOW_ID: '1', TERM: 'dumb' }, 'none'],
      [{ TERM_PROGRAM: 'iTerm.app', TERM: 'screen-256color' }, 'none'],
      [{}, 'none'],
    ] as const)
      assert.equal(protocolOf(env), protocol, JSON.stringify(env));
  });
});

const line = (x: unknown, y: unknown, more: object = {}) => {
  const series = [{ type: 'line', label: 's', x, y, ...more }];
  return JSON.stringify({ type: 'line', title: 'T', axes: [{ xLabel: 'time', yLabel: 'volt', series }] });
};

describe('a drawing of a chart', () => {
  it('a drawing of a chart has twelve rows, from the corner of the least to that of the greatest, with axes and labels', () => {
    const lines = drawChart(line([0, 1], [0, 10]), 40) ?? [];
    assert.equal(lines.length, 15);
    assert.equal(lines[0], 'T');
    assert.match(lines[1] ?? '', /^10 │ +[\u2801-\u28ff]+$/);
    assert.match(lines[12] ?? '', /^ 0 │[\u2801-\u28ff]+$/);
    assert.match(lines[13] ?? '', /^ {4}0 +1$/);
    assert.equal(lines[14], 'x: time · y: volt · s');
    // A straight line rises: each row begins further left than the row above.
    const starts = lines.slice(1, 13).map((row) => row.slice(4).search(/[\u2801-\u28ff]/));
    assert.deepEqual(
      starts,
      starts.toSorted((one, other) => other - one),
    );
  });

  it('a drawing of a chart has only the points of a scatter, each at its place', () => {
    const lines = drawChart(line([0, 1], [0, 1], { type: 'scatter' }), 40) ?? [];
    const dots = lines
      .slice(1, 13)
      .join('')
      .match(/[\u2801-\u28ff]/g);
    // The lowest dot of the left column, and the highest of the right one.
    assert.deepEqual(dots?.toSorted(), ['\u2808', '\u2840']);
  });

  it('a drawing of a chart has bars as long as their values, upright and lying, with names of any width', () => {
    const bars = (x: unknown, y: unknown, horizontal = false) =>
      drawChart(JSON.stringify({ axes: [{ series: [{ type: 'bar', x, y, horizontal }] }] }), 40);
    const upright = bars(['a', '日本'], [1, 2]) ?? [];
    assert.match(upright[0] ?? '', /^a {4}│(█+) 1$/);
    const [short = 0, long = 0] = upright.map((text) => text.match(/█/g)?.length);
    assert.equal(Math.round(long / short), 2);
    assert.deepEqual(bars([1, 2], ['a', '日本'], true), upright);
    const names = Array.from({ length: 30 }, (_, index) => `${index}`);
    assert.equal(bars(names, Array(30).fill(1))?.at(-1), '… 6 more');
  });

  for (const [what, json] of [
    ['no JSON', '{'],
    ['null', 'null'],
    ['a number', '5'],
    ['no axes', '{"axes":5}'],
    ['no series', '{"axes":[{"series":[null,5]}]}'],
    ['no numbers', line(['a'], ['b'])],
    ['lists of other lengths', line([1, 2, 3], [])],
    ['no lists', line('abc', { length: 3 })],
  ] as const)
    it(`a drawing of a chart of ${what} is none`, () => assert.equal(drawChart(json, 80), undefined));

  const many = Array.from({ length: 5000 }, (_, index) => index);
  for (const [what, json] of [
    ['one point', line([1], [1])],
    ['equal values', line([1, 2, 3], [5, 5, 5])],
    ['the largest numbers', line([-1e308, 1e308], [1e308, -1e308])],
    ['the smallest numbers', line([0, 5e-324], [5e-324, 0])],
    ['gaps', line([1, null, 3], [1, 2, null])],
    ['dates', line(['2026-01-01', '2026-01-02'], [1, 2])],
    ['names that move the cursor', line([1, 2], [1, 2], { label: '\u001b[2J\u001b]0;evil\u0007' })],
    ['names as wide as they like', line([1, 2], [1, 2], { label: '日'.repeat(500) })],
    ['5,000 points', line(many, many)],
  ] as const)
    it(`a drawing of a chart of ${what} fits its terminal and only draws`, () => {
      for (const columns of [20, 60, 80, 200]) {
        const lines = drawChart(json, columns) ?? [];
        assert.ok(lines.length > 0 && lines.length < 20, `${lines.length}`);
        for (const each of lines) assert.ok(widthOf(each) <= columns && !/\p{Cc}/u.test(each), each);
      }
    });
});
