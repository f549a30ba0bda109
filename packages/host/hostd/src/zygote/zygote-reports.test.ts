import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ZygoteReports } from './zygote-reports.ts';

describe('the reports of a zygote', () => {
  it('the reports of a zygote are read from any pieces', () => {
    const reports = new ZygoteReports();
    const text = '{"type":"ready"}\n{"type":"entered","id":7}\n';
    const read = [...text].flatMap((character) => reports.read(character));
    assert.deepEqual(read, [{ type: 'ready' }, { type: 'entered', id: 7 }]);
  });

  it('the reports of a zygote are refused if a line has no end', () => {
    const reports = new ZygoteReports();
    const piece = 'x'.repeat(4096);
    assert.throws(() => {
      for (let count = 0; count < 1000; count += 1) reports.read(piece);
    }, /without an end/);
  });

  for (const line of ['{', 'null', '7', '']) {
    it(`the reports of a zygote are refused if a line is ${line === '' ? 'empty' : line}`, () => {
      assert.throws(() => new ZygoteReports().read(`${line}\n`));
    });
  }
});
