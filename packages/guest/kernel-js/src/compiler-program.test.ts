import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { builtKernelDir } from '../testing/kernel-process.ts';
import { CompilerProgram, PRECOMPILED_FILE } from './worker/compiler-program.ts';

test('what V8 has made of the compiler is taken, unless it is of another program', async () => {
  const folder = await builtKernelDir();
  const precompiled = readFileSync(join(folder, PRECOMPILED_FILE));
  const program = new CompilerProgram(folder, precompiled);
  assert.ok(program.isPrecompiled);
  assert.ok('cell' in program.start('javascript').compile('await 1', 1));

  const other = await mkdtemp(join(tmpdir(), 'cloche-compiler-'));
  try {
    await writeFile(join(other, 'compiler.cjs'), `${readFileSync(join(folder, 'compiler.cjs'), 'utf8')}// changed`);
    const changed = new CompilerProgram(other, precompiled);
    assert.ok(!changed.isPrecompiled);
    assert.ok('cell' in changed.start('javascript').compile('await 1', 1));
  } finally {
    await rm(other, { recursive: true });
  }
});
