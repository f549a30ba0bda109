import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { findPip, lacksPip } from './python-tools.ts';

describe('a pip for the tools', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-python-tools-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  /** Returns a program that answers as a Python does which has these modules. */
  function python(name: string, cases: string): string {
    const file = join(folder, name);
    writeFileSync(file, `#!/bin/sh\ncase "$2:$PYTHONPATH" in\n${cases}\n*) exit 1;;\nesac\n`, { mode: 0o755 });
    return file;
  }
  const MAKES_ENVIRONMENT = 'venv:*) mkdir -p "$3/lib/python3.11/site-packages";;';

  it('a pip for the tools is that of the machine', () => assert.equal(findPip(folder, python('own', 'pip:) ;;')), ''));

  it('a pip for the tools is that of an environment which `venv` makes once, where the machine has none', () => {
    const cache = join(folder, 'cache');
    const found = join(cache, 'python-tools/pip/lib/python3.11/site-packages');
    const program = python('venv', `pip:${cache}/*) ;;\n${MAKES_ENVIRONMENT}`);
    assert.equal(findPip(cache, program), found);
    assert.ok(existsSync(found));
    assert.equal(findPip(cache, python('later', `pip:${cache}/*) ;;`)), found);
  });

  it('a pip for the tools is found once `venv` has been installed, although an earlier environment had none', () => {
    const cache = join(folder, 'repaired');
    assert.equal(findPip(cache, python('before', 'venv:*) mkdir -p "$3/lib";;')), undefined);
    assert.ok(findPip(cache, python('after', `pip:${cache}/*) ;;\n${MAKES_ENVIRONMENT}`))?.startsWith(cache));
  });

  const NONE: readonly [string, string][] = [
    ['without the modules', ''],
    ['whose `venv` makes an environment without pip', MAKES_ENVIRONMENT],
    ['whose `venv` fails half way', 'venv:*) mkdir -p "$3/lib"; exit 1;;'],
    ['whose `venv` makes nothing', 'venv:*) ;;'],
  ];
  for (const [index, [title, cases]] of NONE.entries()) {
    it(`a pip for the tools is missing for a Python ${title}, and the reason says so`, () => {
      const cache = join(folder, `none-${index}`);
      assert.match(
        lacksPip(cache, python(`none-${index}.sh`, cases)) ?? '',
        /^Python has no pip: run `apt-get install/,
      );
    });
  }

  it('a pip for the tools is missing without a Python, and in a cache that cannot be written, and the reason says so', () => {
    assert.match(
      lacksPip(folder, join(folder, 'absent')) ?? '',
      /absent is missing: run `apt-get install python3-venv`/,
    );
    writeFileSync(join(folder, 'file'), '');
    mkdirSync(join(folder, 'other'));
    assert.match(lacksPip(join(folder, 'file'), python('unwritable', MAKES_ENVIRONMENT)) ?? '', /no pip/);
  });
});
