import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { inOwnMountNamespace } from '../../testing/own-mount-namespace.ts';
import { attachLoopDevice, isLoopDeviceBackedBy } from './loop-device.ts';

/** Gives this mount namespace the `/dev` of a container that was started before there were loop devices. */
const SMALL_DEV = `
mount -t tmpfs dev "$1"
for name in loop-control null; do : > "$1/$name"; mount --bind "/dev/$name" "$1/$name"; done
mount --move "$1" /dev`;

inOwnMountNamespace(import.meta.filename, () => {
  test('a loop device is attached where /dev does not have it, as in a container', () => {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-loop-'));
    const image = join(folder, 'image');
    execFileSync('truncate', ['--size=1M', image]);
    execFileSync('sh', ['-euc', `mkdir "$1"; ${SMALL_DEV}`, 'sh', join(folder, 'dev')]);
    const file = openSync(image, 'r+');
    try {
      const device = attachLoopDevice(file);
      assert.ok(existsSync(device.path));
      assert.ok(isLoopDeviceBackedBy(device.number, image));
      closeSync(device.fd);
    } finally {
      closeSync(file);
      rmSync(folder, { recursive: true });
    }
  });
});
