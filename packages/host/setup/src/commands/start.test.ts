import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runCloche } from '@cloche/cli/testing';
import { needsRoot } from '@cloche/testkit/needs-root';

const CLOCHE = fileURLToPath(new URL('../../../../clients/cli/bin/cloche.mjs', import.meta.url));

describe('cloche start', { skip: needsRoot }, () => {
  it('cloche start refuses a machine without a network before it downloads anything', async () => {
    const cacheDir = mkdtempSync(join(tmpdir(), 'cloche-start-'));
    const env = { ...process.env, CLOCHE_CACHE_DIR: cacheDir, CLOCHE_PORT: '0' };
    const { status, stderr } = spawnSync('unshare', ['--net', process.execPath, CLOCHE, 'start'], {
      env,
      encoding: 'utf8',
    });
    assert.equal(status, 1);
    assert.match(stderr, /^error: This machine has no network, and packages have to be downloaded\. Connect it/);
    assert.deepEqual(readdirSync(cacheDir), []);
    rmSync(cacheDir, { recursive: true });
  });

  it('cloche start does what npm start does, and reports what it lacks with a remedy', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const port = String((taken.address() as AddressInfo).port);
    const { exitCode, stdout, stderr } = await runCloche(['start'], { env: { CLOCHE_PORT: port } });
    taken.close();
    assert.deepEqual([exitCode, stdout], [1, '']);
    assert.match(stderr, new RegExp(`^error: Port ${port} is in use\\.[^]*CLOCHE_PORT`));
  });
});
