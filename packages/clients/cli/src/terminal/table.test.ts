import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import picocolors from 'picocolors';
import { fields, table } from './table.ts';
import { cutTo, widthOf } from './width.ts';

const colors = picocolors.createColors(false);
const to = (columns: number) => ({ colors, isTerminal: true, columns });

interface Row {
  id: string;
  name: string;
  status: string;
  labels: string;
}
const columns = [
  { title: 'ID', value: ({ id }: Row) => id },
  { title: 'NAME', value: ({ name }: Row) => name },
  { title: 'STATUS', value: ({ status }: Row) => status },
  { title: 'LABELS', value: ({ labels }: Row) => labels },
];
const ID = 'sbx_0123456789abcdefghij';
const rows: Row[] = [
  { id: ID, name: 'a'.repeat(60), status: 'ready', labels: 'team=blue app=web' },
  { id: ID, name: '日本語'.repeat(12), status: 'destroyed', labels: '👩 family 🎉'.repeat(5) },
  { id: ID, name: 'e\u0301'.repeat(10), status: 'failed', labels: '' },
];

describe('a table on a terminal', () => {
  for (const width of [20, 24, 30, 60, 80, 110, 120, 200, 400]) {
    it(`a table on a terminal has no line wider than its ${width} columns`, () => {
      const lines = table(rows, columns, to(width)).split('\n');
      assert.equal(lines.length, 4);
      for (const line of lines) assert.ok(widthOf(line) <= width, `${widthOf(line)}: ${line}`);
    });
  }

  it('a table on a terminal keeps the id whole, cuts wide cells with an ellipsis, and leaves columns out from the right', () => {
    assert.match(table(rows, columns, to(110)), /^ID +NAME +STATUS +LABELS\n.*a… {2}ready +team=blue app=web\n/);
    assert.match(
      table(rows, columns, to(80)),
      new RegExp(`^ID +NAME +STATUS +LABELS\n${ID} {2}a+… {2}ready +team=blue app=…\n`),
    );
    assert.match(table(rows, columns, to(60)), new RegExp(`^ID +NAME +STATUS\n${ID} {2}a+… {2}ready\n`));
    assert.equal(table(rows, columns, to(24)).split('\n')[1], ID);
  });

  it('aligns wide characters, emoji and combining marks', () => {
    const lines = table(rows, columns, to(120)).split('\n');
    const starts = [lines[1]?.indexOf('ready'), lines[2]?.indexOf('destroyed'), lines[3]?.indexOf('failed')];
    const before = starts.map((at, index) => widthOf(lines[index + 1]?.slice(0, at) ?? ''));
    assert.equal(new Set(before).size, 1, `${before}`);
  });

  it('a table on a terminal is whole where it is piped', () => {
    const text = table(rows, columns, { colors, isTerminal: false, columns: 20 });
    for (const row of rows) for (const cell of [row.name, row.labels]) assert.ok(text.includes(cell));
  });

  it('a table on a terminal takes one column for a letter, two for wide characters and emoji, and none for marks', () => {
    for (const [text, width] of [
      ['abc', 3],
      ['日本', 4],
      ['한글', 4],
      ['ｆｕ', 4],
      ['🎉', 2],
      ['👩‍👩‍👧', 2],
      ['🇩🇪', 2],
      ['e\u0301', 1],
      ['é', 1],
      ['…', 1],
      ['', 0],
    ] as const)
      assert.equal(widthOf(text), width, text);
    assert.deepEqual(
      ['日本語', 'abcd', 'abc', 'ab'].map((text) => cutTo(text, 3)),
      ['日…', 'ab…', 'abc', 'ab'],
    );
  });
});

describe('fields on a terminal', () => {
  it('fields on a terminal go on below their value where they are wider', () => {
    const text = fields(
      [
        ['id', ID],
        ['metadata', 'aaa=1 bbb=2 ccc=3 ddd=4'],
      ],
      to(24),
    );
    assert.equal(text, `id        ${ID}\nmetadata  aaa=1 bbb=2\n          ccc=3 ddd=4`);
  });
});
