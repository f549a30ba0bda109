import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { importCommand, importFailure } from './warm-imports.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-imports-'));
after(() => rmSync(folder, { recursive: true }));

/** Runs the program with a module of this content. */
function failureOf(module: string, imports = ['json', 'tested', 'decimal']): string | undefined {
  writeFileSync(join(folder, 'tested.py'), module);
  const [program = '', ...args] = importCommand(imports);
  const { status, stdout } = spawnSync(program, args, {
    env: { ...process.env, PYTHONPATH: folder },
    encoding: 'utf8',
  });
  return importFailure({ status: 'exited', exitCode: status ?? 1, stdout }, imports);
}

describe('warm imports', () => {
  it('warm imports that load are fine, whatever they print', () => {
    assert.equal(failureOf('print("noise\\ttested\\tnoise")'), undefined);
  });

  for (const [title, module, why] of [
    ['raise', 'raise ValueError("not today\\nat all")', 'tested: ValueError: not today'],
    ['exit', 'import sys; sys.exit(0)', 'tested: SystemExit: 0'],
    ['end the process', 'import os; os._exit(7)', 'Python ended with exit code 7'],
    [
      'start a thread',
      'import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()',
      'tested: it starts a thread, which kernels would lack',
    ],
    ['say much', 'raise ValueError("x" * 100_000)', `tested: ValueError: ${'x'.repeat(288)}`],
  ] as const) {
    it(`warm imports that ${title} are named with the reason`, () => assert.equal(failureOf(module), why));
  }

  it('warm imports that are missing are named, and only modules of the recipe are', () => {
    assert.equal(failureOf('', ['nothing_here']), "nothing_here: ModuleNotFoundError: No module named 'nothing_here'");
    assert.equal(failureOf('print("", "other", "x", sep="\\t")'), undefined);
  });

  it('warm imports of a version without Python say so, and those that take too long', () => {
    assert.match(importFailure({ status: 'failed', stdout: '' }, ['a']) ?? '', /no python3/);
    assert.match(importFailure({ status: 'timed_out', stdout: '' }, ['a']) ?? '', /more than 120 seconds/);
  });
});
