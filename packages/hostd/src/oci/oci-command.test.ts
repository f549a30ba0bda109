import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { OciCommand } from './oci-command.ts';

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'oci-command-'));
});
after(() => rmSync(folder, { recursive: true }));

describe('deleting a container', () => {
  it('removes its state when the runtime cannot read it, and keeps that of other containers', async () => {
    const program = join(folder, 'runtime');
    writeFileSync(program, '#!/bin/sh\nexit 1\n');
    chmodSync(program, 0o755);
    const stateDir = join(folder, 'state');
    for (const id of ['cut-off', 'other']) {
      mkdirSync(join(stateDir, id), { recursive: true });
      writeFileSync(join(stateDir, id, 'state.json'), '');
    }
    await new OciCommand({ program, stateDir, byPath: true }).delete('cut-off', join(folder, 'no-bundle'));
    assert.deepEqual(readdirSync(stateDir), ['other']);
  });
});
