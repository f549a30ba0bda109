import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { SealedProgram } from './sealed-program.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-sealed-'));
after(() => rmSync(folder, { recursive: true }));

const run = (path: string, ...args: string[]) => execFileSync(path, args, { encoding: 'utf8' }).trim();

/** Writes a copy of `readlink`, which prints the path that it is executed from, with `byte` at its end. */
function writeProgram(byte: string): string {
  const path = join(folder, 'program');
  rmSync(path, { force: true });
  writeFileSync(path, Buffer.concat([readFileSync(run('/bin/sh', '-c', 'command -v readlink')), Buffer.from(byte)]));
  chmodSync(path, 0o755);
  return path;
}

test('a program is executed from one copy that no process can change', () => {
  const program = new SealedProgram(writeProgram('1'));
  const path = program.path();
  assert.equal(run(path, '/proc/self/exe'), '/memfd:program (deleted)');
  assert.equal(program.path(), path);
  assert.throws(() => {
    const fd = openSync(path, 'r+');
    try {
      writeFileSync(fd, 'changed');
    } finally {
      closeSync(fd);
    }
  }, /EPERM/);
  assert.equal(run(path, '/proc/self/exe'), '/memfd:program (deleted)');
});

test('a program that was replaced is copied again, and the old copy is closed', () => {
  const program = new SealedProgram(writeProgram('1'));
  const before = program.path();
  assert.equal(readFileSync(before, 'latin1').at(-1), '1');
  writeProgram('2');
  assert.equal(readFileSync(program.path(), 'latin1').at(-1), '2');
  assert.ok(program.path() === before || !existsSync(before));
});

test('a program that cannot run from memory, or does not exist, is executed by its own path', () => {
  const script = join(folder, 'not a program');
  writeFileSync(script, 'nothing');
  assert.equal(new SealedProgram(script).path(), script);
  assert.equal(new SealedProgram('no-such-program').path(), 'no-such-program');
});

test('a program is found by its name', () => {
  assert.equal(run(new SealedProgram('readlink').path(), '/proc/self/exe'), '/memfd:readlink (deleted)');
});
