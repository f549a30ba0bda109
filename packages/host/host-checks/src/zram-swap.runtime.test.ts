import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { swapDevices } from '@cloche/layout';
import { guardZram, lacksZram } from '../testing/zram-for-test.ts';
import { addZramSwap, removeZramSwap, zramDevicesOf } from './zram-swap.ts';

const MEBIBYTE = 1024 * 1024;
const SIZE = 64 * MEBIBYTE;
const OWNER = `test-${process.pid}`;

const isOn = (path: string) => swapDevices().some((device) => device.path === path);
const settingOf = (path: string, name: string) => readFileSync(`/sys/block/${basename(path)}/${name}`, 'utf8').trim();

describe('compressed swap', { skip: lacksZram }, () => {
  it('compressed swap has one and a half times the memory, takes at most half of it, and comes before other swap', async () => {
    await using _guard = guardZram(OWNER);
    const path = await addZramSwap(OWNER, SIZE);
    assert.ok(isOn(path));
    assert.equal(settingOf(path, 'disksize'), String(96 * MEBIBYTE));
    assert.equal(settingOf(path, 'mm_stat').split(/\s+/)[3], String(32 * MEBIBYTE));
    assert.match(settingOf(path, 'comp_algorithm'), /\[lz4\]/);
    const [, priority] = new RegExp(`^${path}\\s.*\\s(-?\\d+)$`, 'm').exec(readFileSync('/proc/swaps', 'utf8')) ?? [];
    assert.equal(priority, '100');
    assert.equal(await addZramSwap(OWNER, SIZE), path, 'an owner has one');
    assert.deepEqual(zramDevicesOf('another'), []);
    await removeZramSwap('another');
    assert.ok(isOn(path), 'it is its own');
    for (let times = 0; times < 2; times += 1) await removeZramSwap(OWNER);
    assert.equal(isOn(path), false);
    assert.equal(existsSync(`/sys/block/${basename(path)}`), false);
    assert.deepEqual(zramDevicesOf(OWNER), []);
  });

  it('compressed swap of an owner that was killed is taken over, or removed', async () => {
    const owner = `${OWNER}-killed`;
    await using _guard = guardZram(owner);
    const adding = fileURLToPath(new URL('../testing/add-zram.ts', import.meta.url));
    const child = spawn(process.execPath, [adding, owner], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    child.kill('SIGKILL');
    await once(child, 'exit');
    const [path = ''] = zramDevicesOf(owner);
    assert.ok(isOn(path));
    assert.equal(await addZramSwap(owner, SIZE), path);
    await removeZramSwap(owner);
    assert.deepEqual([isOn(path), zramDevicesOf(owner)], [false, []]);
  });

  /** Where an owner may be killed between two steps. */
  const HALF_MADE: readonly [title: string, settings: Readonly<Record<string, string>>][] = [
    ['without a size', {}],
    ['with a size, and not in use', { disksize: String(SIZE) }],
  ];
  for (const [title, settings] of HALF_MADE) {
    it(`compressed swap that is half made goes with the next: ${title}`, async () => {
      await using _guard = guardZram(OWNER);
      const number = readFileSync('/sys/class/zram-control/hot_add', 'utf8').trim();
      for (const [name, value] of Object.entries(settings)) writeFileSync(`/sys/block/zram${number}/${name}`, value);
      writeFileSync(`/run/cloche/zram/${number}`, OWNER);
      const path = await addZramSwap(OWNER, SIZE);
      assert.deepEqual(zramDevicesOf(OWNER), [path]);
      assert.ok(isOn(path));
    });
  }

  it('compressed swap that the kernel refuses leaves nothing', async () => {
    await using _guard = guardZram(OWNER);
    await assert.rejects(addZramSwap(OWNER, 0));
    assert.deepEqual(zramDevicesOf(OWNER), []);
  });

  it('compressed swap whose device is gone is forgotten', async () => {
    await using _guard = guardZram(OWNER);
    writeFileSync('/run/cloche/zram/4096', OWNER);
    await removeZramSwap(OWNER);
    assert.deepEqual(zramDevicesOf(OWNER), []);
  });
});
