import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { assertOwnMountNamespace } from '../src/linux/mount-namespace.ts';

/**
 * Runs the tests of a file in a process with its own mount namespace, as hostd has. In the test runner's process, which
 * shares the host's mounts, it starts the file again in such a process and reports the outcome as one test.
 */
export function inOwnMountNamespace(file: string, defineTests: () => void): void {
  if (hasOwnMountNamespace()) defineTests();
  else test(`in a mount namespace of its own`, () => runInNewNamespace(file));
}

function hasOwnMountNamespace(): boolean {
  try {
    assertOwnMountNamespace();
    return true;
  } catch {
    return false;
  }
}

async function runInNewNamespace(file: string): Promise<void> {
  const { NODE_TEST_CONTEXT: _context, ...env } = process.env;
  const child = spawn('unshare', ['--mount', '--propagation', 'private', '--', process.execPath, file], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env,
  });
  let report = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    report += text;
  });
  const [code] = await once(child, 'close');
  assert.equal(code, 0, report);
}
