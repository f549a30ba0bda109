import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { CodeCachedProgram } from './code-cached-program.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-precompiled-'));
after(() => rmSync(folder, { recursive: true }));

interface Program {
  answer(): string;
}

const PROGRAM = "exports.answer = () => require('node:path').basename(__filename)";

function written(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

test('a program is taken as V8 has compiled it before, and runs as one that is loaded from its file', () => {
  const path = written('program.cjs', PROGRAM);
  const first = new CodeCachedProgram<Program>(path);
  assert.equal(first.load().answer(), 'program.cjs');
  const second = new CodeCachedProgram<Program>(path, first.precompile());
  assert.ok(second.isPrecompiled);
  assert.equal(second.load().answer(), 'program.cjs');
});

test('what belongs to another program, or is nothing of the kind, only costs the time to compile', () => {
  const precompiled = new CodeCachedProgram(written('program.cjs', PROGRAM)).precompile();
  const unfit = [precompiled, precompiled.subarray(0, 100), Buffer.from('nothing'), Buffer.alloc(0)];
  for (const [index, bytes] of unfit.entries()) {
    // A different program each time, because V8 remembers compiled ones.
    const program = new CodeCachedProgram<Program>(written('other.cjs', `${PROGRAM}// other ${index}`), bytes);
    assert.equal(program.isPrecompiled, false);
    assert.equal(program.load().answer(), 'other.cjs');
  }
});
