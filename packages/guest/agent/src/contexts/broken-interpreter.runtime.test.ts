/** An interpreter that cannot start is named with its own reason, and not blamed on a lack of memory. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { StartedAgent } from '../../testing/started-agent.ts';

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-broken-interpreter-'));
  chmodSync(folder, 0o755);
});
after(() => rmSync(folder, { recursive: true, force: true }));

/** Files in place of Python, and what the error says. */
const BROKEN: Record<string, [make: (python: string) => void, reason: RegExp]> = {
  'a program that lacks a module': [
    script('echo "ModuleNotFoundError: No module named \'IPython\'" >&2; exit 1'),
    /exited with code 1 .*: ModuleNotFoundError: No module named 'IPython'$/,
  ],
  'a program that says nothing': [script('exit 3'), /exited with code 3 before it was ready$/],
  'a program of another machine': [(python) => writeFileSync(python, '\x7fELF broken'), /exited with code [1-9]/],
  'a program that lacks a library': [
    script('echo "python3: error while loading shared libraries: libx.so.1" >&2; exit 127'),
    /exited with code 127 .*libx\.so\.1$/,
  ],
  'a program whose interpreter is gone': [(python) => writeFileSync(python, '#!/no/such/loader\n'), /ENOENT/],
  'a directory': [(python) => mkdirSync(python), /EACCES/],
  'a program that prints much': [
    script('head -c 100000 /dev/zero | tr "\\0" x >&2; echo last >&2; exit 1'),
    /before it was ready: x+/,
  ],
};

function script(line: string) {
  return (python: string) => writeFileSync(python, `#!/bin/sh\n${line}\n`);
}

async function opened(make: (python: string) => void): Promise<[number, string, string]> {
  const python = join(folder, 'python3');
  rmSync(python, { recursive: true, force: true });
  make(python);
  chmodSync(python, 0o755);
  await using agent = await StartedAgent.start('', { CLOCHE_PYTHON: python });
  const open = { language: 'python', cwd: agent.workspace, timeoutMs: 30_000 };
  const { status, body } = await agent.call('PUT', '/contexts/one', open);
  const { code, message } = (body as { error: { code: string; message: string } }).error;
  return [status, code, message];
}

describe('a context', () => {
  for (const [what, [make, reason]] of Object.entries(BROKEN)) {
    it(`a context whose interpreter is ${what} is refused for good, with the reason`, async () => {
      const [status, code, message] = await opened(make);
      assert.deepEqual([status, code], [409, 'unusable'], message);
      assert.match(message, reason);
      assert.ok(message.length < 500);
    });
  }

  for (const [what, line] of Object.entries({
    killed: 'kill -9 $$',
    'out of memory': 'echo MemoryError >&2; exit 1',
  })) {
    it(`a context whose interpreter is ${what} may be asked for again`, async () => {
      assert.deepEqual((await opened(script(line))).slice(0, 2), [500, 'kernel_failed']);
    });
  }
});
