import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { programText } from './program.ts';

describe('the program of a release', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-program-'));
    for (const name of ['bin', 'libraries', 'node_modules/.bin']) mkdirSync(join(folder, name), { recursive: true });
    symlinkSync(join(folder, 'bin/cloche'), join(folder, 'cloche'));
    install('echo "$2 $3"');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Gives it a Node, and one folder for libraries. */
  function install(node: string): void {
    writeFileSync(join(folder, 'bin/cloche'), programText([join(folder, 'libraries')]), { mode: 0o755 });
    writeFileSync(join(folder, 'node_modules/.bin/node'), `#!/bin/sh\n${node}\n`, { mode: 0o755 });
  }

  it('the program of a release runs the command line with its arguments, also by a link', () => {
    writeFileSync(join(folder, 'libraries/libatomic.so.1'), '');
    assert.equal(execFileSync(join(folder, 'cloche'), ['run', '-'], { encoding: 'utf8' }), 'run -\n');
  });

  it('the program of a release runs where Node finds its library elsewhere', () => {
    assert.equal(execFileSync(join(folder, 'cloche'), ['run', '-'], { encoding: 'utf8' }), 'run -\n');
  });

  it('the program of a release names the library that Node lacks, with the commands that install it', () => {
    install('exit 127');
    const { status, stderr } = spawnSync(join(folder, 'cloche'), ['start'], { encoding: 'utf8' });
    assert.equal(status, 1);
    assert.match(stderr, /libatomic\.so\.1.*apt-get install libatomic1/);
  });
});
