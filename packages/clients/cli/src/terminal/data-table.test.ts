import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import picocolors from 'picocolors';
import { drawTable } from './data-table.ts';
import { widthOf } from './width.ts';

const at = (columns: number) => ({ colors: picocolors.createColors(false), isTerminal: true, columns });
const columns = [
  { name: 'city', type: 'object' },
  { name: 'people', type: 'int64' },
  { name: 'share', type: 'float64' },
];
const rows = Array.from({ length: 1000 }, (_, index) => [`town ${index}`, index * 1000, index / 3]);
const dataOf = (some: object) => JSON.stringify({ columns, rows, rowCount: 10_000, ...some });
/** The beginning of what pandas prints. */
const TEXT =
  '         city  people  share\n0      town 0       0    0.0\n1      town 1    1000    0.3\n2  town 2  2000  0.6';

describe('a DataFrame on a terminal', () => {
  it('a DataFrame on a terminal has the width of the terminal, and says how many rows follow', () => {
    const lines = drawTable(dataOf({}), TEXT, at(80))?.split('\n') ?? [];
    assert.deepEqual(lines.slice(0, 3), [
      '   city    people      share',
      '0  town 0       0        0.0',
      '1  town 1    1000  0.3333333',
    ]);
    assert.equal(lines.length, 12);
    assert.equal(lines.at(-1), '… 9,990 more rows');
  });

  it('a DataFrame on a terminal leaves out columns that do not fit, and says how many', () => {
    const wide = Array.from({ length: 30 }, (_, index) => ({ name: `column ${index}`, type: 'object' }));
    const cells = [wide.map(() => 'wide 日本語 text')];
    for (const width of [60, 80, 110, 200]) {
      const drawn = drawTable(dataOf({ columns: wide, rows: cells, rowCount: 1 }), 'head\n0  a', at(width)) ?? '';
      for (const line of drawn.split('\n')) assert.ok(widthOf(line) <= width, `${width}: ${line}`);
      assert.match(drawn, /… \d+ more columns$/);
    }
  });

  it('a DataFrame on a terminal shows a whole small table, and what is missing as pandas does', () => {
    const few = [
      ['a\u001b[2J', null, null],
      [null, 2, 1],
    ];
    const types = [{ name: 'when', type: 'datetime64[ns]' }, ...columns.slice(1)];
    const drawn = drawTable(dataOf({ columns: types, rows: few, rowCount: 2 }), 'x\n0  a\n1  b', at(80));
    assert.equal(drawn, '   when  people  share\n0  a       None    NaN\n1  NaT        2    1.0');
  });

  it('a DataFrame on a terminal is left to IPython where its rows have labels, or the data is malformed', () => {
    const labelled = '        people\ncity\nParis     1\nRome      2';
    for (const text of [labelled, '   a\n5  1\n6  2', '   a\n1  1\n0  2', '', 'a\n\u001b[1m0  1'])
      assert.equal(drawTable(dataOf({}), text, at(80)), undefined, text);
    for (const broken of ['', 'null', '7', '{}', '[]', dataOf({ columns: [] }), dataOf({ columns: [null] })])
      assert.equal(drawTable(broken, TEXT, at(80)), undefined, broken);
    for (const part of [{ rows: [1] }, { rows: {} }, { rowCount: 5 }, { rowCount: '10' }, { columns: [{}] }])
      assert.equal(drawTable(dataOf(part), TEXT, at(80)), undefined, JSON.stringify(part));
  });
});
