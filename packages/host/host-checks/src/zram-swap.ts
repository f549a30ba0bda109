import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { swapDevices } from '@cloche/layout';

const run = promisify(execFile);

const CONTROL = '/sys/class/zram-control';
/** A file for each device, named by its number, with the owner. Gone after a boot, as the devices are. */
const OWNERS = '/run/cloche/zram';
/** Bytes that can be swapped, and memory that the device may take for them, in shares of the machine's memory. */
const SWAPPED_SHARE = 1.5;
const MEMORY_SHARE = 0.5;
/** Before swap on disks, whose priority is negative by default. */
const PRIORITY = '100';
const BLOCK_BYTES = 4096;
/** Time in which a device gives back all that was swapped, on a slow machine. */
const OFF_MS = 600_000;
const ON_MS = 30_000;

/** Whether this machine can make compressed swap in memory. */
export function hasZram(): boolean {
  return existsSync(join(CONTROL, 'hot_add'));
}

/** Returns the devices of an owner, also those that are not in use, since their owner was killed before. */
export function zramDevicesOf(owner: string): string[] {
  return ownedNumbers(owner).map((number) => deviceOf(number));
}

/** Returns the owners of devices that were made here. */
export function zramOwners(): string[] {
  return [...new Set(names(OWNERS).map((name) => ownerOf(name) ?? ''))].filter((owner) => owner !== '');
}

/**
 * Has the machine swap to compressed memory, in a device of its own. Returns its path; the one that the owner has, if it
 * is in use.
 *
 * @throws Error if the kernel refuses; nothing is left then
 */
export async function addZramSwap(owner: string, machineBytes: number): Promise<string> {
  const existing = zramDevicesOf(owner).find(isOn);
  if (existing !== undefined) return existing;
  await removeZramSwap(owner);
  const number = readFileSync(join(CONTROL, 'hot_add'), 'utf8').trim();
  mkdirSync(OWNERS, { recursive: true, mode: 0o755 });
  // First of all: a device without a size takes no memory.
  writeFileSync(join(OWNERS, number), owner, { mode: 0o600 });
  try {
    if (readSetting(number, 'comp_algorithm').includes('lz4')) writeSetting(number, 'comp_algorithm', 'lz4');
    writeSetting(number, 'disksize', inBlocks(machineBytes * SWAPPED_SHARE));
    writeSetting(number, 'mem_limit', inBlocks(machineBytes * MEMORY_SHARE));
    await run('mkswap', ['--label', `cloche-${owner}`.slice(0, 15), deviceOf(number)], { timeout: ON_MS });
    await run('swapon', ['--priority', PRIORITY, deviceOf(number)], { timeout: ON_MS });
    return deviceOf(number);
  } catch (error) {
    await remove(number);
    throw error;
  }
}

/**
 * Moves back to memory what the owner's devices hold, and removes them. Idempotent.
 *
 * @throws Error if the memory does not suffice; a device stays in use then
 */
export async function removeZramSwap(owner: string): Promise<void> {
  for (const number of ownedNumbers(owner)) await remove(number);
}

async function remove(number: string): Promise<void> {
  const path = deviceOf(number);
  if (isOn(path)) await run('swapoff', [path], { timeout: OFF_MS });
  if (existsSync(folderOf(number))) writeSetting(number, 'reset', '1');
  // Before the device goes: another program may get its number.
  rmSync(join(OWNERS, number), { force: true });
  if (existsSync(folderOf(number))) writeFileSync(join(CONTROL, 'hot_remove'), number);
}

function ownedNumbers(owner: string): string[] {
  return names(OWNERS).filter((number) => /^\d+$/.test(number) && ownerOf(number) === owner);
}

function ownerOf(number: string): string | undefined {
  try {
    return readFileSync(join(OWNERS, number), 'utf8');
  } catch {
    return undefined;
  }
}

function isOn(path: string): boolean {
  return swapDevices().some((device) => device.path === path);
}

function deviceOf(number: string): string {
  return `/dev/zram${number}`;
}

function folderOf(number: string): string {
  return `/sys/block/zram${number}`;
}

function readSetting(number: string, name: string): string {
  return readFileSync(join(folderOf(number), name), 'utf8');
}

function writeSetting(number: string, name: string, value: string): void {
  writeFileSync(join(folderOf(number), name), value);
}

function inBlocks(bytes: number): string {
  return String(Math.floor(bytes / BLOCK_BYTES) * BLOCK_BYTES);
}

function names(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}
