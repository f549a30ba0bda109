import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import type { Language } from '../messages.ts';
import { KernelProcess, removeBuiltKernel } from './kernel-process.ts';

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
    'enum.ts': 'export const one: number = 1;\nexport enum Color { Red }',
    'common.cjs': 'module.exports = { common: 4 };',
    'data.json': '{ "five": 5 }',
  };
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(workspace, path)), { recursive: true });
    await writeFile(join(workspace, path), content);
  }
});

after(async () => {
  await removeBuiltKernel();
  await rm(workspace, { recursive: true });
});

async function resultsOf(cells: string[], language: Language = 'javascript'): Promise<(string | undefined)[]> {
  await using kernel = await KernelProcess.start(language, { cwd: workspace });
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

test('a TypeScript file with an enum is an error that names the file, the line and the enum', async () => {
  for (const cell of ['import { Color } from "./enum.ts"', 'await import("./enum.ts")', 'require("./enum.ts")']) {
    await using kernel = await KernelProcess.start('typescript', { cwd: workspace });
    const { error } = await kernel.run(cell);
    assert.equal(error?.name, 'SyntaxError');
    assert.equal(error.message, 'TypeScript enum is not supported in strip-only mode');
    assert.match(error.traceback.join('\n'), /\/enum\.ts:2\n.*\nexport enum Color/);
  }
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
