import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, describe, it } from 'node:test';
import { KernelProcess, removeBuiltKernel } from './kernel-process.ts';

after(removeBuiltKernel);

/** Defines values whose code must not run. */
const HOSTILE = `globalThis.ran = [];
class Trap { get value() { ran.push('getter'); return {}; } static get name() { ran.push('name'); return 'x'; } get [Symbol.toStringTag]() { ran.push('tag'); return 'x'; } }
let trap = new Trap();
Object.defineProperty(trap, 'own', { get() { ran.push('own'); return {}; }, enumerable: true });
Object.defineProperty(globalThis, 'watched', { get() { ran.push('global'); return {}; }, configurable: true });
const traps = new Proxy({}, { get: (_, name) => (...all) => { ran.push(name); return Reflect[name](...all); } });
let proxy = new Proxy({ hidden: 1 }, traps);
let below = Object.create(proxy);
let callable = new Proxy(function () {}, traps);`;

for (const language of ['javascript', 'typescript'] as const) {
  describe(`questions about ${language}`, () => {
    let kernel: KernelProcess;
    beforeEach(async () => {
      kernel = await KernelProcess.start(language);
    });
    afterEach(() => kernel[Symbol.asyncDispose]());

    const ask = (type: string, content: object) => kernel.ask({ header: { msg_type: type }, content });
    const complete = async (code: string, cursor_pos = [...code].length) =>
      (await ask('complete_request', { code, cursor_pos })).content;
    const matches = async (code: string) => (await complete(code)).matches as string[];
    const inspect = async (code: string, more: object = {}) => {
      const { content } = await ask('inspect_request', { code, cursor_pos: code.length, detail_level: 0, ...more });
      return content.data['text/plain'] as string | undefined;
    };

    it('are completed by the names of earlier cells, of globals and of properties', async () => {
      await kernel.run(
        'const folder = { path: "/a", parts: [1], "no name": 1 };\nlet folders = 2;\nconst name = "own";',
      );
      assert.deepEqual(await matches('folder'), ['folder', 'folders']);
      assert.deepEqual(await matches('folder.pa'), ['parts', 'path']);
      assert.deepEqual(await matches('1 + folder ?. pat'), ['path']);
      assert.deepEqual(await matches('folder.parts.find'), ['find', 'findIndex', 'findLast', 'findLastIndex']);
      assert.deepEqual(await matches('folder.path.startsW'), ['startsWith']);
      assert.deepEqual(await matches('JSON.s'), ['stringify']);
      assert.deepEqual(await matches('process.platf'), ['platform']);
      assert.deepEqual(await matches('structuredCl'), ['structuredClone']);
      assert.equal((await matches('folder.')).includes('no name'), false);
      for (const code of ['none.a', 'f().fold', '"text', '1.5', 'folder.none.a'])
        assert.deepEqual(await matches(code), []);
      const { cursor_start, cursor_end } = await complete('/* 😀 */ folder.pat + 1', 18);
      assert.deepEqual([cursor_start, cursor_end], [15, 18]);
    });

    it('are answered by what a name stands for', async () => {
      await kernel.run('function add(a, b) {\n  return a + b;\n}\nconst kept = new Map();\nlet text = "a";');
      assert.equal(await inspect('add'), 'Type: function\nfunction add(a, b)');
      assert.match((await inspect('add', { detail_level: 1 })) ?? '', /return a \+ b/);
      assert.equal(await inspect('add(1)', { cursor_pos: 2 }), 'Type: function\nfunction add(a, b)');
      assert.equal(await inspect('kept'), 'Type: object (Map)');
      assert.equal(await inspect('text'), 'Type: string\nValue: "a"');
      assert.equal(await inspect('none'), undefined);
      assert.equal((await ask('inspect_request', { code: 'none', cursor_pos: 4 })).content.found, false);
    });

    it('run no getter and no trap of a proxy', async () => {
      await kernel.run(language === 'typescript' ? HOSTILE.replaceAll('(_, name)', '(_: any, name: any)') : HOSTILE);
      assert.deepEqual(await matches('trap.'), [
        'constructor',
        'hasOwnProperty',
        'isPrototypeOf',
        'own',
        'propertyIsEnumerable',
        'toLocaleString',
        'toString',
        'value',
        'valueOf',
        '__defineGetter__',
        '__defineSetter__',
        '__lookupGetter__',
        '__lookupSetter__',
        '__proto__',
      ]);
      for (const code of ['trap.own.', 'trap.value.', 'watched.', 'proxy.', 'proxy.hidden.', 'below.', 'callable.']) {
        assert.deepEqual(await matches(code), [], code);
      }
      for (const code of ['trap', 'trap.own', 'trap.value', 'watched', 'proxy', 'below', 'below.a', 'callable'])
        await inspect(code);
      assert.equal(await inspect('proxy'), 'Type: proxy');
      assert.equal((await kernel.run('ran.length')).result, '0');
    });

    it('count as no cells, and have answers of limited size', async () => {
      await kernel.run(
        'globalThis.many = {};\nfor (let n = 0; n < 20_000; n += 1) many["name" + n] = n;\nlet long = "x".repeat(1e6);',
      );
      assert.equal((await matches('many.name')).length, 500);
      assert.ok(((await inspect('long')) ?? '').length <= 10_000);
      assert.equal((await kernel.run('1')).executionCount, 2);
    });

    it('that wait for a busy thread are interrupted', async () => {
      await kernel.run('setTimeout(() => { require("fs").writeSync(2, "stuck"); for (;;); }, 0); 1');
      await kernel.until(() => kernel.stderr.includes('stuck'));
      const runId = kernel.executeMessage(
        JSON.stringify({ header: { msg_type: 'complete_request' }, content: { code: 'a', cursor_pos: 1 } }),
      );
      kernel.interrupt(runId);
      assert.equal((await kernel.finished(runId)).error?.name, 'InterruptedError');
      assert.equal((await kernel.run('1 + 1')).result, '2');
      assert.deepEqual(await matches('structuredCl'), ['structuredClone']);
    });

    it('that are malformed fail by themselves, and others have no reply', async () => {
      for (const message of ['{', '7', '{}'])
        assert.ok((await kernel.finished(kernel.executeMessage(message))).error, message);
      const runId = kernel.executeMessage('{"header":{"msg_type":"history_request"},"content":{}}');
      assert.equal((await kernel.finished(runId)).error, undefined);
      assert.equal(
        kernel.frames.some((frame) => frame.type === 'message' && frame.runId === runId),
        false,
      );
      const { content } = await ask('kernel_info_request', {});
      assert.equal(content.language_info.version, process.versions.node);
    });
  });
}
