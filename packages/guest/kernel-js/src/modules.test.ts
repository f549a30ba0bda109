import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { KernelProcess } from '../testing/kernel-process.ts';
import type { Language } from './messages.ts';

let workspace: string;

before(async () => {
  workspace = await mkdtemp(join(tmpdir(), 'cloche-kernel-js-workspace-'));
  const files: Record<string, string> = {
    'node_modules/esm-only/package.json': '{ "name": "esm-only", "type": "module", "exports": "./index.js" }',
    'node_modules/esm-only/index.js': 'export const kind = "esm"; export default function esm() { return kind }',
    'node_modules/cjs/package.json': '{ "name": "cjs", "main": "main.js" }',
    'node_modules/cjs/main.js': 'exports.kind = "cjs"; exports.url = () => new URL("http://a/b").pathname;',
    'local.mjs': 'export const local = 1; export default 2; globalThis.loaded = (globalThis.loaded ?? 0) + 1;',
    'typed.ts': 'export type T = number; export interface I { a: 1 } export const typed: T = 3;',
    'prefix/lib/node_modules/global-cjs/package.json': '{ "name": "global-cjs", "main": "main.js" }',
    'prefix/lib/node_modules/global-cjs/main.js': 'exports.kind = "global cjs"',
    'prefix/lib/node_modules/global-esm/package.json':
      '{ "name": "global-esm", "type": "module", "exports": { ".": { "import": "./main.js" }, "./sub": "./sub.js" } }',
    'prefix/lib/node_modules/global-esm/main.js':
      'import { kind as cjs } from "global-cjs"; export const kind = "global esm, " + cjs',
    'prefix/lib/node_modules/global-esm/sub.js': 'export const kind = "sub"',
    'prefix/lib/node_modules/@scope/dual/package.json':
      '{ "name": "@scope/dual", "exports": { "import": "./main.mjs", "require": "./main.cjs" } }',
    'prefix/lib/node_modules/@scope/dual/main.mjs': 'export const kind = "dual esm"',
    'prefix/lib/node_modules/@scope/dual/main.cjs': 'exports.kind = "dual cjs"',
    'prefix/lib/node_modules/cjs/package.json': '{ "name": "cjs", "main": "main.js" }',
    'prefix/lib/node_modules/cjs/main.js': 'exports.kind = "global namesake"',
    'uses-global.mjs': 'export { kind } from "@scope/dual"',
    'common.cjs': 'module.exports = { common: 4 };',
    'data.json': '{ "five": 5 }',
  };
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(workspace, path)), { recursive: true });
    await writeFile(join(workspace, path), content);
  }
});

after(async () => {
  await rm(workspace, { recursive: true });
});

async function resultsOf(
  cells: string[],
  language: Language = 'javascript',
  env: Record<string, string> = {},
): Promise<(string | undefined)[]> {
  await using kernel = await KernelProcess.start(language, { cwd: workspace, env });
  const results: (string | undefined)[] = [];
  for (const cell of cells) {
    const { error, result } = await kernel.run(cell);
    results.push(error ? `${error.name}: ${error.message}` : result);
  }
  return results;
}

test('imports of every form persist', async () => {
  const imports = `
    import fs, { readFileSync as read } from 'node:fs'
    import * as path from 'path'
    import './local.mjs'
    import esm, { kind } from 'esm-only'
    import cjs, { kind as cjsKind } from 'cjs'
    import { "local" as renamed } from './local.mjs'
    import data from './data.json' with { type: 'json' }
    import { typed } from './typed.ts'
  `;
  const use =
    '[fs.readFileSync === read, path.sep, loaded, esm(), kind, cjs.kind, cjsKind, renamed, data.five, typed].join()';
  assert.deepEqual(await resultsOf([imports, use]), [undefined, "'true,/,1,esm,esm,cjs,cjs,1,5,3'"]);
});

test('import() and require resolve from the working directory, inside functions and later too', async () => {
  assert.deepEqual(
    await resultsOf([
      'const load = async (name) => (await import(name)).kind; const { common } = require("./common.cjs")',
      'await load("esm-only")',
      'await load("cjs")',
      'common + require("cjs").kind + require("esm-only").kind',
      'setTimeout(async () => { globalThis.late = (await import("./local.mjs")).default }); await new Promise((r) => setTimeout(r, 50)); late',
    ]),
    [undefined, "'esm'", "'cjs'", "'4cjsesm'", '2'],
  );
});

test('the names of a CommonJS file and import.meta say where the cell is', async () => {
  assert.deepEqual(
    await resultsOf([
      '__dirname === process.cwd() && __filename.startsWith(__dirname)',
      'require.main === module && typeof exports',
      'import.meta.dirname === process.cwd() && import.meta.url.startsWith("file:///")',
      'import.meta.resolve("./local.mjs").endsWith("/local.mjs") && import.meta.resolve("node:fs")',
      'import { createRequire } from "module"; const require = createRequire(import.meta.url); require("cjs").kind',
    ]),
    ['true', "'object'", 'true', "'node:fs'", "'cjs'"],
  );
});

test('the kernel is not among the modules that a cell finds', async () => {
  assert.deepEqual(
    await resultsOf([
      'Object.keys(require.cache)',
      'process.mainModule',
      'require("cjs"); Object.keys(require.cache).length',
    ]),
    ['[]', undefined, '1'],
  );
});

test('a missing module or export is an error that names it', async () => {
  const [missingModule, missingExport] = await resultsOf(['import "not-there"', 'import { nope } from "./local.mjs"']);
  assert.match(String(missingModule), /not-there/);
  assert.match(String(missingExport), /SyntaxError: .*'\.\/local\.mjs' does not provide an export named 'nope'/);
});

test('export keywords are tolerated', async () => {
  const cell =
    'export const a = 1; export function f() { return 2 } export class C {} ; export { a as b }; export default { d: 3 }';
  assert.deepEqual(
    await resultsOf([cell, '[a, f(), typeof C].join()', 'export default function g() { return 4 }', 'g()']),
    [undefined, "'1,2,function'", undefined, '4'],
  );
});

test('types are imported from TypeScript files without harm', async () => {
  const cells = [
    'import { I, T, typed } from "./typed.ts"; import type { T as U } from "./typed.ts"; const i: I = { a: 1 }',
    'typed',
  ];
  assert.deepEqual(await resultsOf(cells, 'typescript'), [undefined, '3']);
});

/** TypeScript that is more than types, and an expression that uses what the file exports as `m`. */
const MORE_THAN_TYPES: Record<string, [source: string, use: string, value: string]> = {
  'an enum': ['export const one: number = 1;\nexport enum Color { Red }', 'm.Color[m.Color.Red] + m.one', "'Red1'"],
  'a const enum': ['const enum Size { S = 3 }\nexport const size = Size.S', 'm.size', '3'],
  'a namespace': ['export namespace Geo { export const pi = 3 }', 'm.Geo.pi', '3'],
  'parameter properties': ['export class P { constructor(public readonly x: number) {} }', 'new m.P(2).x', '2'],
  'an import of a namespace member': [
    'namespace A { export const b = 1 }\nimport c = A.b;\nexport const d = c',
    'm.d',
    '1',
  ],
  'a standard decorator': [
    'function twice(f: any, _: unknown) { return function (this: any) { return 2 * f.call(this) } }\nexport class C { @twice one() { return 1 } }',
    'new m.C().one()',
    '2',
  ],
  'a decorator of a parameter': [
    'export const seen: number[] = [];\nfunction note(_: any, __: any, index: number) { seen.push(index) }\nexport class D { f(a: number, @note b: number) { return a } }',
    'm.seen.join()',
    "'1'",
  ],
  'an accessor': ['export class E { accessor v = 5 }', 'new m.E().v', '5'],
  'an import of another such file': [
    'import { Color } from "./an-enum.ts";\nexport const red: Color = Color.Red',
    'm.red',
    '0',
  ],
  'words of JSDoc alone': ['/** @param a {@link b} */\nexport const f = (a: number): number => a', 'm.f(7)', '7'],
};

for (const [what, [source, use, value]] of Object.entries(MORE_THAN_TYPES)) {
  test(`a TypeScript file with ${what} is imported and required`, async () => {
    const file = `./${what.replaceAll(' ', '-')}.ts`;
    await writeFile(join(workspace, 'an-enum.ts'), MORE_THAN_TYPES['an enum']?.[0] ?? '');
    await writeFile(join(workspace, file), source);
    for (const language of ['typescript', 'javascript'] as const) {
      for (const load of [
        `import * as m from "${file}"`,
        `var m = await import("${file}")`,
        `var m = require("${file}")`,
      ]) {
        assert.deepEqual(await resultsOf([load, use], language), [undefined, value], load);
      }
    }
  });
}

test('an error in a compiled TypeScript file has the line of the file', async () => {
  await writeFile(
    join(workspace, 'fails.ts'),
    'enum A { B }\n\nexport function fail(): never {\n  throw new Error("x")\n}',
  );
  await using kernel = await KernelProcess.start('typescript', { cwd: workspace });
  const { error } = await kernel.run('import { fail } from "./fails.ts"; fail()');
  assert.match(error?.traceback.join('\n') ?? '', /at fail \(.*\/fails\.ts:4:9\)/);
});

test('a TypeScript file with an error in its syntax is an error that names it', async () => {
  await writeFile(join(workspace, 'broken.ts'), 'export enum {');
  const [found] = await resultsOf(['import "./broken.ts"'], 'typescript');
  assert.match(found ?? '', /^SyntaxError: /);
});

test('CommonJS TypeScript files and those of packages are loaded as Node loads them', async () => {
  await writeFile(join(workspace, 'common.cts'), 'enum A { B = 4 }\nmodule.exports = { b: A.B as number }');
  await writeFile(join(workspace, 'old.ts'), 'enum A { B = 5 }\nmodule.exports = { b: A.B }');
  await writeFile(join(workspace, 'node_modules/cjs/typed.ts'), 'export enum A { B }');
  assert.deepEqual(
    await resultsOf(['require("./common.cts").b', 'require("./old.ts").b', '(await import("./old.ts")).default.b']),
    ['4', '5', '5'],
  );
  assert.match((await resultsOf(['await import("cjs/typed.ts")']))[0] ?? '', /node_modules/);
});

test('a file that changed is loaded again under another specifier only', async () => {
  assert.deepEqual(
    await resultsOf([
      'const { writeFileSync } = require("node:fs"); writeFileSync("changing.mjs", "export const n = 1")',
      'import { n } from "./changing.mjs"; writeFileSync("changing.mjs", "export const n = 2"); n',
      'import { n } from "./changing.mjs"; n',
      'import { n } from "./changing.mjs?2"; n',
    ]),
    [undefined, '1', '1', '2'],
  );
});

test('a cell that declares the name of a global leaves the modules alone', async () => {
  assert.deepEqual(
    await resultsOf([
      'const URL = "http://mine"; const { kind, url } = require("cjs"); function make() { return { URL } }',
      '[URL, url(), make().URL, typeof URL, ((URL) => URL)(1)].join()',
      'let { URL } = require("node:url"); new URL("http://a/c").pathname',
    ]),
    [undefined, "'http://mine,/b,http://mine,string,1'", "'/c'"],
  );
});

/** Cells that load a package, and its kind. */
const GLOBAL: Record<string, [cell: string, kind: string]> = {
  'required CommonJS': ['require("global-cjs").kind', "'global cjs'"],
  'imported CommonJS': ['import { kind } from "global-cjs"; kind', "'global cjs'"],
  'an imported module that imports another one': [
    'import { kind } from "global-esm"; kind',
    "'global esm, global cjs'",
  ],
  'a module imported in a function': ['await (async () => (await import("global-esm/sub")).kind)()', "'sub'"],
  'a part of a package': ['import { kind } from "global-esm/sub"; kind', "'sub'"],
  'a package with a scope, imported': ['import { kind } from "@scope/dual"; kind', "'dual esm'"],
  'a package with a scope, required': ['require("@scope/dual").kind', "'dual cjs'"],
  'one that a file imports': ['import { kind } from "./uses-global.mjs"; kind', "'dual esm'"],
  'not one whose namesake is in the folder': ['import { kind } from "cjs"; kind + require("cjs").kind', "'cjscjs'"],
};

for (const [what, [cell, kind]] of Object.entries(GLOBAL)) {
  test(`a globally installed package is found: ${what}`, async () => {
    const env = { NODE_PATH: `/nowhere:${workspace}/prefix/lib/node_modules` };
    assert.deepEqual(await resultsOf([cell], 'javascript', env), [kind]);
    const [missing] = await resultsOf(['import "global-nothing"'], 'javascript', env);
    assert.match(missing ?? '', /Cannot find package 'global-nothing'/);
  });
}
