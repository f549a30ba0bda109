/** Checks that no promise is left without an owner, and nothing that emits errors without a listener. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { findUnowned } from './unowned.ts';

/** Files that make what others listen to, each with the reason. */
const EXCEPT: Readonly<Record<string, string>> = {
  'packages/guest/agent/src/guest/precompile-agent.ts': 'an error fails the build of the guest folder, as it must',
  'packages/guest/agent/src/kernels/start-kernel.ts': '`KernelProcess` listens to the child in the same turn',
  'packages/shared/node-support/src/socket-body.ts': '`#endWith` listens in the same turn',
  'packages/service/runtime/src/agent-client/agent-endpoint.ts': 'the HTTP client listens to connections that it opens',
  'packages/service/runtime/src/agent-client/http/agent-transport.ts': '`answerTo` listens, in the same turn',
  'packages/service/server/src/features/previews/proxy/forward.ts': 'both callers listen in the same turn',
  'packages/service/server/src/features/workspace-runs/archive/judge-archive.ts':
    'in a thread of its own, whose error is a refusal',
};

describe('a source file', () => {
  it('handles the rejection of each promise, and listens to each stream, socket, worker and child that it makes', () => {
    const files = globSync('packages/*/*/src/**/*.ts', {
      exclude: ['packages/*/*/node_modules/**', 'packages/shared/testkit/**'],
    }).filter((file) => !/\.(?:test|fixture|d)\.ts$|\/(?:testing|test)\//.test(file));
    assert.ok(files.length > 500, 'the files are found');
    const found = files.flatMap((file) => findUnowned(readFileSync(file, 'utf8')).map((line) => `${file}:${line}`));
    const isExcept = (line: string) => EXCEPT[line.split(':', 1)[0] ?? ''] !== undefined;
    assert.deepEqual(
      found.filter((line) => !isExcept(line)),
      [],
    );
    const needed = Object.keys(EXCEPT).filter((file) => found.some((line) => line.startsWith(`${file}:`)));
    assert.deepEqual(Object.keys(EXCEPT), needed, 'each exception is needed');
  });
});

describe('without an owner', () => {
  const FOUND: Readonly<Record<string, string>> = {
    'a promise that `void` drops': 'async function end() {}\nvoid end();',
    'an async listener': "socket.on('data', async () => {});",
    'an async method as a listener': "class A {\n  async #end() {}\n  begin(s) { s.once('close', this.#end); }\n}",
    'a timer that calls an async method':
      'class A {\n  async end() {}\n  begin() { setTimeout(() => this.end(), 1); }\n}',
    'an async function for each': 'list.forEach(async (each) => {});',
    'a socket': "import { connect } from 'node:net';\nconst socket = connect(1);",
    'a socket that is listened to after a wait':
      "import { connect } from 'node:net';\nasync function dial() {\n  const s = connect(1);\n  await look();\n  s.on('error', end);\n}",
    'a socket for which `once` listens':
      "import { connect } from 'node:net';\nasync function f() {\n  const s = connect(1);\n  await once(s, 'connect');\n}",
    'a worker': "import { Worker } from 'node:worker_threads';\nnew Worker('a.ts');",
    'a stream under another name': "import { createReadStream as open } from 'node:fs';\nconst s = open('a');",
  };
  for (const [name, source] of Object.entries(FOUND))
    it(`the check of owners reports ${name}`, () => assert.equal(findUnowned(source).length, 1, source));

  const OWNED: Readonly<Record<string, string>> = {
    'a promise with `catch`': 'async function end() {}\nend().catch(report);',
    'a timer with `catch`':
      'class A {\n  async end() {}\n  begin() { setTimeout(() => this.end().catch(report), 1); }\n}',
    'a listener that is not async': "socket.on('data', () => {});",
    'a socket with a listener': "import { connect } from 'node:net';\nconst s = connect(1);\ns.on('error', end);",
    'a stream in a pipeline': "import { createReadStream } from 'node:fs';\npipeline(createReadStream('a'), b, end);",
    'a stream that a loop reads':
      "import { createReadStream } from 'node:fs';\nasync function f() {\n  for await (const a of createReadStream('a')) b(a);\n}",
  };
  for (const [name, source] of Object.entries(OWNED))
    it(`the check of owners does not report ${name}`, () => assert.deepEqual(findUnowned(source), [], source));
});
