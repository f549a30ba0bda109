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
  it('deleting a container removes its state when the runtime cannot read it, and keeps that of other containers', async () => {
    const program = join(folder, 'runtime');
    writeFileSync(program, '#!/bin/sh\nexit 1\n');
    chmodSync(program, 0o755);
    const stateDir = join(folder, 'state');
    const others = ['sbx_a-10', 'sbx_b-1'];
    for (const id of ['sbx_a-1', ...others]) {
      mkdirSync(join(stateDir, id), { recursive: true });
      writeFileSync(join(stateDir, id, 'state.json'), '');
      // gVisor keeps a file and a lock for each container of a sandbox.
      for (const ending of ['state', 'lock']) writeFileSync(join(stateDir, `${id}_sandbox:${id}.${ending}`), '');
    }
    await new OciCommand({ program, stateDir, byPath: true }).delete('sbx_a-1', join(folder, 'no-bundle'));
    const kept = others.flatMap((id) => [id, `${id}_sandbox:${id}.lock`, `${id}_sandbox:${id}.state`]);
    assert.deepEqual(readdirSync(stateDir).sort(), kept.sort());
  });
});
