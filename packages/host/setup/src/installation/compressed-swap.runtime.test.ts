import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { describe, it } from 'node:test';
import { zramDevicesOf } from '@cloche/host-checks';
import { guardZram, lacksZram } from '@cloche/host-checks/zram-for-test';
import { swapDevices } from '@cloche/layout';
import { seedInstallationId } from '@cloche/testkit/installation-ids';
import { ensureServiceAccounts } from '../host/service-account.ts';
import { endWithCompressedSwap } from './compressed-swap.ts';
import { startInstallation } from './start-installation.ts';

const PROGRAMS = {
  hostd: 'packages/host/setup/testing/stand-in-hostd.ts',
  egress: 'packages/host/setup/testing/stand-in-egress.ts',
  server: 'packages/host/setup/testing/stand-in-server.ts',
};

async function withInstallation(act: (start: (zram: 'on' | 'off') => Started, id: string) => Promise<void>) {
  const dataDir = mkdtempSync(join(tmpdir(), 'cloche-swap-'));
  const runDir = join('/run', basename(dataDir));
  const id = seedInstallationId(dataDir);
  const prepared = { accounts: await ensureServiceAccounts('/dev/null'), guestDir: '/nonexistent' };
  await using _guard = guardZram(id);
  try {
    await act(
      (CLOCHE_ZRAM) => startInstallation({ dataDir, runDir, prepared, programs: PROGRAMS, env: { CLOCHE_ZRAM } }),
      id,
    );
  } finally {
    for (const folder of [dataDir, runDir]) rmSync(folder, { recursive: true, force: true });
  }
}

type Started = ReturnType<typeof startInstallation>;
const inUse = (id: string) => zramDevicesOf(id).filter((path) => swapDevices().some((device) => device.path === path));

describe('the compressed swap of an installation', { skip: lacksZram }, () => {
  it('the compressed swap of an installation is there while it serves, and goes with it if no sandbox is left', async () => {
    await withInstallation(async (start, id) => {
      const installation = await start('on');
      assert.equal(inUse(id).length, 1);
      await installation.stop();
      assert.deepEqual(zramDevicesOf(id), []);
      const other = await start('off');
      assert.deepEqual(zramDevicesOf(id), []);
      await other.stop();
    });
  });

  it('the compressed swap of an installation stays with its sandboxes, and the next start takes it over or removes it', async () => {
    await withInstallation(async (start, id) => {
      const first = await start('on');
      const [path] = inUse(id);
      // As if a sandbox had stayed, or hostd had died.
      for (const count of [async () => 1, () => Promise.reject(new Error('no answer'))]) {
        await endWithCompressedSwap(id, count, async () => {});
        assert.deepEqual(inUse(id), [path]);
      }
      first.kill('hostd', 'SIGKILL');
      await first.stop();
      const second = await start('on');
      assert.equal(inUse(id).length, 1);
      first.kill('hostd', 'SIGKILL');
      await second.stop();
      const third = await start('off');
      assert.deepEqual(zramDevicesOf(id), []);
      await third.stop();
    });
  });
});
