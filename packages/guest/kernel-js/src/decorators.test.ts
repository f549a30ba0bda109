import assert from 'node:assert/strict';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { builtKernelDir, KernelProcess } from '../testing/kernel-process.ts';
import type { Language } from './messages.ts';

const LANGUAGES = ['javascript', 'typescript'] as const;

async function resultsOf(language: Language, ...cells: string[]): Promise<(string | undefined)[]> {
  await using kernel = await KernelProcess.start(language);
  const results: (string | undefined)[] = [];
  for (const cell of cells) {
    const { error, result } = await kernel.run(cell);
    results.push(error ? `${error.name}: ${error.message}` : result);
  }
  return results;
}

const note = `const seen = [];
  const note = (value, { kind, name, static: isStatic }) => { seen.push([kind, isStatic ? 'static' : '', String(name)].join(' ').replace('  ', ' ')) };
  const doubled = (method, context) => function (...args) { return method.apply(this, args) * 2 };
  const plus = (n) => (value, context) => (initial) => initial + n;
  const counted = ({ get, set }) => ({ get() { return get.call(this) * 10 }, set(v) { set.call(this, v + 1) }, init: (v) => v + 2 });`;

test('decorators of classes, methods, accessors and fields are the standard ones', async () => {
  const service = `@note class Service {
    static self = () => Service;
    @plus(1) field = 1;
    @note @doubled count(n) { return n * this.#half }
    @plus(0.25) #half = 0.25;
    @counted accessor size = 1;
    @note get name() { return 'service' }
    @note static make() { return new Service() }
  }`;
  const use = `const s = Service.make(), first = s.size; s.size = 5;
    [s.field, s.count(21), first, s.size, s.name, Service.self() === Service, Service.name].join(' ')`;
  for (const language of LANGUAGES) {
    const code =
      language === 'typescript' ? note.replaceAll(/([({,] *)(\.\.\.args|n|value|context)\b/g, '$1$2: any') : note;
    assert.deepEqual(
      await resultsOf(language, code, service, use, 'seen.join()'),
      [
        undefined,
        undefined,
        "'2 21 30 60 service true Service'",
        "'method static make,method count,getter name,class Service'",
      ],
      language,
    );
  }
});

test('types, enums and parameter properties go along with decorators', async () => {
  const cell = `
    enum Color { Red = 'red', Blue = 'blue' }
    function bound<T extends (...args: any[]) => unknown>(method: T, context: ClassMethodDecoratorContext): void {
      context.addInitializer(function (this: any) { this[context.name] = this[context.name].bind(this) });
    }
    abstract class Shape { abstract area(): number }
    class Square extends Shape {
      constructor(private readonly side: number, public color: Color = Color.Blue) { super() }
      @bound area(): number { return this.side ** 2 }
      @bound describe(): string { return this.color satisfies Color }
    }
    const { area, describe } = new Square(3);`;
  assert.deepEqual(
    await resultsOf(
      'typescript',
      cell,
      'area() + describe()',
      'enum Color { Green } @((_: any, __: any) => {}) class X {}\nObject.keys(Color).join()',
    ),
    [undefined, "'9blue'", "'0,Green'"],
  );
});

test('decorated classes persist, are declared again and share nothing', async () => {
  const plus = 'const plus = (n) => (_, context) => (initial) => initial + n';
  assert.deepEqual(
    await resultsOf(
      'javascript',
      plus,
      'class A { @plus(1) f = 1; static me = () => A }',
      'const old = A; class B { @plus(2) f = 1 }',
      '[new A().f, new B().f]',
      'class A { @plus(3) f = 1; static me = () => A }',
      '[new A().f, new old().f, old.me() === old, A.me() === A, A.name].join()',
      'const first = new (@((value) => class extends value { g = 2 }) class First { @plus(4) f = 1 })(); [first.f, first.g].join()',
      '[typeof _init, typeof _A, typeof __decorateElement].join()',
      'export default @((value) => value) class Named { @plus(5) static f = 1 }',
      'Named.f',
    ),
    [
      undefined,
      undefined,
      undefined,
      '[ 2, 3 ]',
      undefined,
      "'4,2,true,true,A'",
      "'5,2'",
      "'undefined,undefined,undefined'",
      undefined,
      '6',
    ],
  );
});

test('the result of a cell is its last expression, never what applies decorators', async () => {
  const cells = [
    'const mark = (value) => value; 5; @mark class A { @mark m() {} }',
    'class B { @mark static s() {} }',
    '@mark class C {} C.name',
    '(@mark class D {}).name',
    'var f; @mark class E {} f = () => 3',
    "'@'",
  ];
  for (const language of LANGUAGES) {
    assert.deepEqual(await resultsOf(language, ...cells), [undefined, undefined, "'C'", "'D'", '[Function: f]', "'@'"]);
  }
});

test('accessor needs no decorator', async () => {
  for (const language of LANGUAGES) {
    assert.deepEqual(
      await resultsOf(language, 'class A { static accessor n = 1 }\nA.n += 1; A.n', 'let accessor = 3; accessor'),
      ['2', '3'],
    );
  }
});

test('what cells call as globals are called leaves decorators alone', async () => {
  assert.deepEqual(
    await resultsOf(
      'javascript',
      "const Symbol = 'AAPL', Object = 1; const add = (_, c) => (v) => v + 1",
      'class A { @add f = 1 } new A().f + Symbol',
      'const TypeError = 2, WeakMap = 3',
      'class B { @add #f = 1; f = this.#f } new B().f + Object',
    ),
    [undefined, "'2AAPL'", undefined, '3'],
  );
});

test('decorators of parameters make all of a TypeScript cell experimental', async () => {
  const cell = `
    const log: string[] = [];
    const note = (name: string) => (...args: any[]): any => { log.push(name + ':' + args.slice(1).map((a) => typeof a).join('/')) };
    function doubled(target: any, key: string, descriptor: PropertyDescriptor) {
      const method = descriptor.value;
      descriptor.value = function (...args: any[]) { return method.apply(this, args) * 2 };
    }
    @note('class')
    class Service {
      @note('property') name = 'x';
      @doubled count(@note('parameter') n: number) { return n }
      @note('static') static make() { return new Service() }
    }
  `;
  assert.deepEqual(await resultsOf('typescript', cell, 'Service.make().count(21)', 'log.join(" ")'), [
    undefined,
    '42',
    "'property:string/undefined parameter:string/number static:string/object class:'",
  ]);
});

test('a traceback names the lines of a cell with decorators and leaves out what applies them', async () => {
  const cell = (type: string) => `const ok = (value, context) => {}
function bad(value${type}, { name }${type}) {
  throw new RangeError('no ' + name)
}
@ok class A {
  @ok field = 1
  @ok go() {
    throw new Error('gone')
  }
}
const tryOut = (action${type}) => { try { action() } catch (error) { return error.stack } }
const stacks = [tryOut(() => new A().go())]
class B {
  @ok fine() {}
  @bad method() {}
}`;
  for (const language of LANGUAGES) {
    await using kernel = await KernelProcess.start(language);
    const { error } = await kernel.run(cell(language === 'typescript' ? ': any' : ''));
    assert.deepEqual(error?.traceback, ['RangeError: no method', '    at bad (cell-1:3:9)', '    at cell-1:15:8']);
    const lines = (await kernel.run('stacks[0].match(/cell-1:\\d+/g).join()')).result;
    assert.equal(lines, "'cell-1:8,cell-1:12,cell-1:11,cell-1:12'");
  }
});

test('a syntax error in a cell with decorators shows where', async () => {
  const cases: [Language, string, string[]][] = [
    ['javascript', "let é = 'ü@'\nclass é2 { @dec 'ü' = ; }", ['cell-1:2:23', "class é2 { @dec 'ü' = ; }"]],
    ['typescript', "let é = 'ü@'\nclass é2 { @dec 'ü' = ; }", ['cell-1:2:23', "class é2 { @dec 'ü' = ; }"]],
    ['javascript', 'let mail = "@"\nlet x = ;', ['cell-1:2:9', 'let x = ;']],
    ['javascript', 'class A {\n  m(@dec x) {}\n}', ['cell-1:2:5', '  m(@dec x) {}']],
  ];
  for (const [language, cell, [place, line]] of cases) {
    await using kernel = await KernelProcess.start(language);
    const { error } = await kernel.run(cell);
    assert.equal(error?.name, 'SyntaxError');
    const column = Number(place?.split(':')[2]);
    assert.deepEqual(error.traceback.slice(0, 3), [place, line, `${' '.repeat(column - 1)}^`], cell);
    assert.equal((await kernel.run('1')).result, '1');
  }
});

test('cells go on when the compiler of decorators cannot run', async () => {
  const program = join(await builtKernelDir(), 'bin/esbuild');
  await using kernel = await KernelProcess.start();
  await rename(program, `${program}-away`);
  const { error } = await kernel.run('class A { @dec m() {} }').finally(() => rename(`${program}-away`, program));
  assert.match(String(error?.message), /^The decorators of the cell could not be compiled: .*ENOENT/);
  assert.equal((await kernel.run('const d = (v) => v; (@d class A {}).name')).result, "'A'");
});
