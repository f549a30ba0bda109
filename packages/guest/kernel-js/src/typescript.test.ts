import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KernelProcess } from '../testing/kernel-process.ts';

async function resultsOf(...cells: string[]): Promise<(string | undefined)[]> {
  await using kernel = await KernelProcess.start('typescript');
  const results: (string | undefined)[] = [];
  for (const cell of cells) {
    const { error, result } = await kernel.run(cell);
    results.push(error ? `${error.name}: ${error.message}` : result);
  }
  return results;
}

test('types vanish and are not checked', async () => {
  assert.deepEqual(
    await resultsOf(
      'interface A { a: string }\ntype B<T> = T[]\nconst list: B<number> = [1, 2] satisfies number[]',
      'const wrong: string = 5 as any; declare const absent: number; function f<T>(x: T, y?: number): T { return x! }',
      'f<number>(wrong) + list.length',
    ),
    [undefined, undefined, '7'],
  );
});

test('enums and namespaces are values of later cells too', async () => {
  assert.deepEqual(
    await resultsOf(
      'enum Color { Red, Green = "g" } const enum Size { S = 3 } namespace Geo { export const pi = 3; export namespace Deep { export const x = pi } }',
      '[Color.Red, Color[0], Color.Green, Size.S, Geo.pi, Geo.Deep.x].join()',
      'enum Color { Blue } Object.keys(Color).join()',
      'namespace Geo { export const e = 2 } Object.keys(Geo).join()',
    ),
    [undefined, "'0,Red,g,3,3,3'", "'0,Blue'", "'e'"],
  );
});

test('parameter properties, fields and abstract classes work', async () => {
  const cell = `
    abstract class Base { abstract area(): number; protected readonly tag: string = 'base' }
    class Box extends Base { constructor(private w: number, public h = 2) { super() } area() { return this.w * this.h } override toString() { return this.tag } }
  `;
  assert.deepEqual(await resultsOf(cell, 'const box = new Box(3); [box.toString(), box.area()].join(" ")'), [
    undefined,
    "'base 6'",
  ]);
});

test('an import that only a later cell uses is kept', async () => {
  assert.deepEqual(await resultsOf("import { join } from 'node:path'", "join('a', 'b')"), [undefined, "'a/b'"]);
});

test('await and for await work at the top level', async () => {
  const cell =
    'const seen: number[] = []; for await (const x of [1, Promise.resolve(2)]) seen.push(x); seen.push(await 3); seen.join()';
  assert.deepEqual(await resultsOf(cell), ["'1,2,3'"]);
});

test('the last expression is the value of a cell whose types make it a module', async () => {
  const cells = [
    'import type { Stats } from "fs"; "value"',
    'import type Fs from "fs"\n"value"',
    'import type * as fs from "fs"; "value"',
    'export type T = 1; "value"',
    'export interface X {}; "value"',
    'export declare const x: number; "value"',
    'type A = 1; export type { A }; "value"',
    'export type { Stats } from "fs"; "value"',
    'export type * from "fs"; "value"',
    '"value"; export type T = 1',
    '"value"\nexport {}',
    'export {}; "value";',
    'import { type Stats } from "node:fs"; await "value"',
    'import type { Stats } from "fs"; const f = (s: Stats) => s; "value"',
  ];
  assert.deepEqual(
    await resultsOf(...cells),
    cells.map(() => "'value'"),
  );
  assert.deepEqual(await resultsOf('export const x = 1', '"value"; export const y = 2'), [undefined, undefined]);
});
