import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { KernelProcess } from '../testing/kernel-process.ts';

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

    it(`questions about ${language} are completed by the names of earlier cells, of globals and of properties`, async () => {
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

    it(`questions about ${language} are answered by what a name stands for`, async () => {
      await kernel.run('function add(a, b) {\n  return a + b;\n}\nconst kept = new Map();\nlet text = "a";');
      assert.equal(await inspect('add'), 'Type: function\nfunction add(a, b)');
      assert.match((await inspect('add', { detail_level: 1 })) ?? '', /return a \+ b/);
      assert.equal(await inspect('add(1)', { cursor_pos: 2 }), 'Type: function\nfunction add(a, b)');
      assert.equal(await inspect('kept'), 'Type: object (Map)');
      assert.equal(await inspect('text'), 'Type: string\nValue: "a"');
      assert.equal(await inspect('none'), undefined);
      assert.equal((await ask('inspect_request', { code: 'none', cursor_pos: 4 })).content.found, false);
    });

    it(`questions about ${language} run no getter and no trap of a proxy`, async () => {
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

    it(`questions about ${language} count as no cells, and have answers of limited size`, async () => {
      await kernel.run(
        'globalThis.many = {};\nfor (let n = 0; n < 20_000; n += 1) many["name" + n] = n;\nlet long = "x".repeat(1e6);',
      );
      assert.equal((await matches('many.name')).length, 500);
      assert.ok(((await inspect('long')) ?? '').length <= 10_000);
      assert.equal((await kernel.run('1')).executionCount, 2);
    });

    it(`questions about ${language} that wait for a busy thread are interrupted`, async () => {
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

    const COMPLETENESS = {
      complete: [
        '',
        '1 + 1',
        'let a = 1;',
        'await 1',
        'if (a) b()',
        '{ a: 1 }',
        'function f() {}',
        '// only this',
        '`a`',
      ],
      incomplete: [
        ...[
          'function f() {',
          'f(',
          '[1,',
          'const a = {',
          '`text',
          '/* comment',
          'if (a) {\n  b()',
          'a =',
          'a.',
          'class A {',
        ],
        ...['for (const a of b) {', '() => {', '"text \\', 'x ? 1 :', 'import {', 'new Map([', '`a ${1'],
      ],
      invalid: ['1 +* 2', 'let let = 1', ')', '"text', 'a b', '}', 'let a; let a'],
    };
    for (const [status, codes] of Object.entries(COMPLETENESS)) {
      it(`about completeness call code ${status}`, async () => {
        for (const code of codes) {
          const { content } = await ask('is_complete_request', { code });
          assert.equal(content.status, status, code);
        }
      });
    }

    it('about completeness name the next indentation, and remember nothing of the code', async () => {
      const indent = async (code: string) => (await ask('is_complete_request', { code })).content.indent;
      assert.deepEqual(
        [await indent('if (a) {'), await indent('if (a) {\n  f('), await indent('a =')],
        ['  ', '    ', ''],
      );
      await ask('is_complete_request', { code: 'const only = 1' });
      assert.equal((await kernel.run('let only = 2; only = 3; only')).result, '3');
    });

    it(`questions about ${language} find earlier cells`, async () => {
      for (const code of ['1', 'let value = 2', '1', 'none(']) await kernel.run(code);
      const history = async (request: object) => (await ask('history_request', request)).content.history;
      const all = [
        [1, 1, '1'],
        [1, 2, 'let value = 2'],
        [1, 3, '1'],
        [1, 4, 'none('],
      ];
      assert.deepEqual(await history({ hist_access_type: 'tail', n: 10 }), all);
      assert.deepEqual(await history({ hist_access_type: 'tail', n: 1 }), all.slice(3));
      assert.deepEqual(await history({ hist_access_type: 'range', session: 0, start: 2, stop: 4 }), all.slice(1, 3));
      assert.deepEqual(await history({ hist_access_type: 'range', session: 7, start: 2, stop: 4 }), []);
      const search = (pattern: unknown, more = {}) => history({ hist_access_type: 'search', n: 10, pattern, ...more });
      for (const pattern of ['*value*', 'let * = ?', '*let v*2*']) assert.deepEqual(await search(pattern), [all[1]]);
      for (const pattern of ['value', '?', 'let*3', '']) {
        const expected = pattern === '?' ? [all[0], all[2]] : [];
        assert.deepEqual(await search(pattern), expected, pattern);
      }
      assert.deepEqual(await search('1', { unique: true }), [all[2]]);
      assert.deepEqual(await search(7), all);
      assert.deepEqual(await history({ hist_access_type: 'tail', n: 1, output: true }), [[1, 4, ['none(', null]]]);
      const hostile = await search(`${'*a'.repeat(20_000)}b`);
      assert.deepEqual(hostile, []);
    });

    it('about expressions are answered by values, or by what each has thrown, and count as no cells', async () => {
      await kernel.run('const kept = { a: 1 };\nlet calls = 0;');
      const user_expressions = {
        value: 'kept.a + 1',
        awaited: 'await Promise.resolve("later")',
        nothing: 'undefined',
        missing: 'none.at',
        syntax: '1 +',
        act: 'calls += 1',
      };
      const { content } = await ask('execute_request', { code: '', user_expressions });
      const { value, awaited, nothing, missing, syntax } = content.user_expressions;
      assert.deepEqual([value.status, value.data['text/plain'], value.metadata], ['ok', '2', {}]);
      assert.deepEqual([awaited.data['text/plain'], nothing.data['text/plain']], ["'later'", 'undefined']);
      assert.deepEqual([missing.status, missing.ename, syntax.ename], ['error', 'ReferenceError', 'SyntaxError']);
      const after = await kernel.run('calls');
      assert.deepEqual([after.result, after.executionCount], ['1', 2]);
      assert.deepEqual((await ask('execute_request', { code: '', user_expressions: {} })).content.user_expressions, {});
    });

    it('about expressions are interrupted', async () => {
      const content = { code: '', user_expressions: { stuck: 'console.error("stuck"), await new Promise(() => {})' } };
      const runId = kernel.executeMessage(JSON.stringify({ header: { msg_type: 'execute_request' }, content }));
      await kernel.until(() => kernel.stderr.includes('stuck'));
      kernel.interrupt(runId);
      assert.equal((await kernel.finished(runId)).error?.name, 'InterruptedError');
      assert.equal((await kernel.run('1 + 1')).result, '2');
    });

    it(`questions about ${language} that are malformed fail by themselves, and others have no reply`, async () => {
      for (const message of ['{', '7', '{}'])
        assert.ok((await kernel.finished(kernel.executeMessage(message))).error, message);
      const runId = kernel.executeMessage('{"header":{"msg_type":"comm_info_request"},"content":{}}');
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
