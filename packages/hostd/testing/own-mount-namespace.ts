import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { assertOwnMountNamespace } from '../src/kernel/mount-namespace.ts';

/**
 * Runs the tests of a file in a process with mounts of its own, as hostd has. Here, where they are shared, the file is
 * started once more over there, and its outcome is one test's.
 */
export function inOwnMountNamespace(file: string, defineTests: () => void): void {
  if (hasOwnMountNamespace()) defineTests();
  else test(`in a mount namespace of its own`, () => runOverThere(file));
}

function hasOwnMountNamespace(): boolean {
  try {
    assertOwnMountNamespace();
    return true;
  } catch {
    return false;
  }
}

async function runOverThere(file: string): Promise<void> {
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
