import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { CodeRun } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let sandboxId: string;
before(async () => {
  service = await sharedService();
  sandboxId = (await service.api.readySandbox()).id;
});
after(() => service.close());

const run = (code: string, language: 'python' | 'javascript' | 'typescript' = 'python') =>
  service.api.run(sandboxId, code, { language });
const text = (result: CodeRun) => result.outputs.find(({ format }) => format === 'text')?.value;

describe('Python', () => {
  it('Python gives the value of the last expression as a result', async () => {
    const result = await run('1 + 1');
    assert.equal(text(result), '2');
    assert.equal(result.outputs[0]?.role, 'result');
    assert.equal(result.error, undefined);
    assert.equal(typeof result.durationMs, 'number');
  });

  it('Python keeps variables from run to run and counts executions', async () => {
    const first = await run('x = 41');
    const second = await run('x + 1');
    assert.equal(text(second), '42');
    assert.equal(second.executionCount, first.executionCount + 1);
    assert.equal(second.contextId, first.contextId);
  });

  it('Python is restarted into one fresh kernel, however many ask at once', async () => {
    const { contextId } = await run('kept = 1');
    const path = `/v1/sandboxes/${sandboxId}/code/contexts/${contextId}/restart`;
    const restarts = await Promise.all(Array.from({ length: 8 }, () => service.api.post(path)));
    assert.deepEqual([...new Set(restarts.map(({ status }) => status))], [200]);
    assert.equal((await run('kept')).error?.name, 'NameError');
  });

  it('Python awaits at top level, and runs shell lines and magics', async () => {
    const result = await run('import asyncio\nawait asyncio.sleep(0)\n!echo from-shell\n%timeit -n1 -r1 pass\n"done"');
    assert.equal(text(result), "'done'");
    assert.match(result.stdout, /from-shell/);
  });

  it('Python reports an exception with its class, message and traceback, without colour codes', async () => {
    const result = await run('def f():\n    raise ValueError("no good")\nf()');
    assert.equal(result.error?.name, 'ValueError');
    assert.equal(result.error?.message, 'no good');
    assert.match(result.error?.traceback?.join('\n') ?? '', /in f/);
    assert.doesNotMatch(JSON.stringify(result.error), /\\u001b/);
    assert.equal(result.durationMs, undefined);
  });

  it('Python reports a syntax error and goes on', async () => {
    assert.equal((await run('def (')).error?.name, 'SyntaxError');
    assert.equal(text(await run('2 + 2')), '4');
  });

  it('Python gives a plot as PNG', async () => {
    const result = await run('import matplotlib.pyplot as plt\nplt.plot([1, 2, 4])\nplt.title("growth")\nplt.show()');
    const png = result.outputs.find(({ format }) => format === 'png');
    assert.equal(
      Buffer.from(png?.value ?? '', 'base64')
        .subarray(1, 4)
        .toString(),
      'PNG',
    );
    assert.equal(png?.mimeType, 'image/png');
    const chart = result.outputs.find(({ format }) => format === 'chart');
    assert.match(chart?.value ?? '', /growth/);
    assert.equal(chart?.bundle, png?.bundle);
  });

  it('Python gives a DataFrame as text, HTML and data, in one bundle', async () => {
    const result = await run('import pandas as pd\npd.DataFrame({"a": [1, 2], "b": ["x", "y"]})');
    const formats = new Map(result.outputs.map((output) => [output.format, output]));
    assert.match(formats.get('html')?.value ?? '', /<table/);
    assert.match(formats.get('text')?.value ?? '', /x/);
    assert.ok(formats.get('data'));
    assert.equal(new Set(result.outputs.map(({ bundle }) => bundle)).size, 1);
  });

  it('Python gives every form of a displayed value', async () => {
    const result = await run(
      'from IPython.display import HTML, Markdown, Latex, SVG, JSON, display\ndisplay(HTML("<b>h</b>"), Markdown("*m*"), Latex("$x$"), JSON({"k": 1}))',
    );
    const formats = result.outputs.map(({ format }) => format);
    for (const format of ['html', 'markdown', 'latex', 'json']) assert.ok(formats.includes(format as 'html'), format);
    assert.ok(result.outputs.every(({ role }) => role === 'display'));
  });

  it('Python has the libraries that the template promises', async () => {
    const result = await run(
      'import numpy, scipy, PIL, requests, pandas, matplotlib\nimport shutil\nall(map(shutil.which, ["python", "node", "npm", "git", "curl", "pip"]))',
    );
    assert.equal(result.error, undefined);
    assert.equal(text(result), 'True');
  });

  it('Python is called python as well as python3', async () => {
    const result = await run('!python -c "import sys, numpy; print(sys.executable, sys.version_info.major)"');
    assert.equal(result.stdout.trim(), '/usr/bin/python 3');
  });

  it('Python runs as an ordinary user in the workspace', async () => {
    const result = await run('import os\n(os.getuid(), os.getcwd(), os.access("/workspace", os.W_OK))');
    assert.equal(text(result), "(1000, '/workspace', True)");
  });
});

describe('JavaScript', () => {
  it('JavaScript gives the value of the last expression, awaited', async () => {
    assert.equal(text(await run('Promise.resolve(6 * 7)', 'javascript')), '42');
  });

  it('JavaScript keeps declarations, which can be repeated', async () => {
    await run('let a = 1; const b = 2; class C { n() { return 3 } }\nfunction f() { return a }', 'javascript');
    await run('let a = 10; const b = 20', 'javascript');
    assert.equal(text(await run('[f(), b, new C().n()]', 'javascript')), '[ 10, 20, 3 ]');
  });

  it('imports and requires modules of Node', async () => {
    const result = await run(
      'import { join } from "node:path";\nconst os = require("os");\njoin("a", typeof os.cpus)',
      'javascript',
    );
    assert.equal(text(result), "'a/function'");
  });

  it('JavaScript imports packages of the workspace', async () => {
    await service.api.run(
      sandboxId,
      'import os, json\nos.makedirs("/workspace/node_modules/tiny", exist_ok=True)\nopen("/workspace/node_modules/tiny/package.json", "w").write(json.dumps({"name": "tiny", "type": "module", "exports": "./i.js"}))\nopen("/workspace/node_modules/tiny/i.js", "w").write("export const answer = 42")',
    );
    assert.equal(text(await run('import { answer } from "tiny"; answer', 'javascript')), '42');
  });

  it('JavaScript reports an error with its class and the line of the cell', async () => {
    const result = await run('const ok = 1;\nnull.x', 'javascript');
    assert.equal(result.error?.name, 'TypeError');
    assert.match(result.error?.traceback?.join('\n') ?? '', /:2:/);
  });

  it('JavaScript prints to standard output and standard error', async () => {
    const result = await run('console.log("out"); console.error("err")', 'javascript');
    assert.equal(result.stdout, 'out\n');
    assert.equal(result.stderr, 'err\n');
  });

  it('JavaScript has a kernel started ahead for the next context where there is memory to spare, and only there', async () => {
    const count = `
      const { readFileSync, readdirSync } = require('fs');
      const isKernel = (name) => {
        try { return readFileSync('/proc/' + name + '/cmdline', 'utf8').includes('kernel-js/main.cjs'); } catch { return false; }
      };
      readdirSync('/proc').filter((name) => Number(name) > 0 && isKernel(name)).length;`;
    const kernelsOf = async (id: string) => text(await service.api.run(id, count, { language: 'javascript' }));
    const narrow = await service.api.readySandbox({ resources: { memoryMb: 512 } });
    const roomy = await service.api.readySandbox({ resources: { memoryMb: 1024 } });
    assert.equal(await kernelsOf(narrow.id), '1');
    // One may wait for TypeScript too, if another test file uses that.
    await eventually(async () => Number(await kernelsOf(roomy.id)) >= 2);
    // The sandbox whose context was opened first would have it by now.
    assert.equal(await kernelsOf(narrow.id), '1');
    for (const { id } of [narrow, roomy]) await service.api.delete(`/v1/sandboxes/${id}`);
  });
});

describe('TypeScript', () => {
  it('transforms all of the language', async () => {
    const code = `
enum Colour { Red, Green }
namespace Shapes { export const corners = (n: number): number => n }
class Point { constructor(private readonly x: number) {} twice(): number { return this.x * 2 } }
const mark = (_: unknown, context: { name: string | symbol }) => { (globalThis as any).marked = String(context.name) };
class Marked { @mark method() {} }
[Colour.Green, Shapes.corners(4), new Point(21).twice(), (globalThis as any).marked] satisfies unknown[]`;
    const result = await run(code, 'typescript');
    assert.equal(result.error, undefined);
    assert.equal(text(result), "[ 1, 4, 42, 'method' ]");
  });

  it('TypeScript has a context of its own beside JavaScript', async () => {
    const js = await run('1', 'javascript');
    const ts = await run('const n: number = 1; n', 'typescript');
    assert.notEqual(js.contextId, ts.contextId);
    assert.equal(ts.language, 'typescript');
  });
});
