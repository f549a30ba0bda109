import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { idRangeOfSlot } from '../base/id-range.ts';
import { identifyProcess, type ProcessIdentity } from '../linux/process-identity.ts';
import { addressesOfSlot, linkName, SLOT_COUNT } from './address-plan.ts';
import { GATEWAY_PURPOSE, Slots } from './slots.ts';

const ALIVE = identifyProcess(process.pid) ?? assert.fail();
const DEAD: ProcessIdentity = { ...ALIVE, startTicks: ALIVE.startTicks - 1 };

let dir: string;
let ours: Slots;
let theirs: Slots;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'slots-'));
  ours = new Slots(dir, 'aaaaaaaa');
  theirs = new Slots(dir, 'bbbbbbbb');
});

afterEach(() => rmSync(dir, { recursive: true }));

/** Resets the counter, as if every other slot had been acquired since. */
function startOver(): void {
  writeFileSync(join(dir, '.next'), '0');
}

test('two installations never have the same slot', () => {
  const slots = [ours.acquire('a', ALIVE), theirs.acquire('a', ALIVE), ours.acquire('b', ALIVE)];
  assert.deepEqual(slots, [0, 1, 2]);
});

test('a released slot is reused after all others', () => {
  const slot = ours.acquire('a', ALIVE);
  ours.release(slot, 'a');
  startOver();
  assert.equal(theirs.acquire('b', ALIVE), slot);
});

test('a slot whose holder is dead is reused, whatever its installation', () => {
  theirs.acquire('a', DEAD);
  startOver();
  assert.equal(ours.acquire('b', ALIVE), 0);
});

test('a slot from before the last boot is reused', () => {
  theirs.acquire('a', { ...ALIVE, bootId: 'another' });
  startOver();
  assert.equal(ours.acquire('b', ALIVE), 0);
});

test('a slot is held as long as the process that it was transferred to lives', () => {
  const slot = ours.acquire('a', ALIVE);
  ours.transfer(slot, 'a', DEAD);
  startOver();
  assert.equal(theirs.acquire('b', ALIVE), slot);
});

test('a late release does not affect the next holder', () => {
  const slot = ours.acquire('a', DEAD);
  startOver();
  assert.equal(theirs.acquire('b', ALIVE), slot);
  ours.release(slot, 'a');
  startOver();
  assert.notEqual(ours.acquire('c', ALIVE), slot);
});

test('a slot is found by its purpose in its own installation', () => {
  theirs.acquire(GATEWAY_PURPOSE, ALIVE);
  assert.equal(ours.find(GATEWAY_PURPOSE), undefined);
  const slot = ours.acquire(GATEWAY_PURPOSE, ALIVE);
  assert.equal(ours.find(GATEWAY_PURPOSE), slot);
});

test('a released slot is not reused while others are free', () => {
  const first = ours.acquire('a', ALIVE);
  ours.release(first, 'a');
  const next = Array.from({ length: 10 }, (_, index) => ours.acquire(`${index}`, ALIVE));
  assert.ok(!next.includes(first));
});

test('a restarted hostd does not reuse it either, nor does another installation', () => {
  const first = ours.acquire('a', ALIVE);
  ours.release(first, 'a');
  assert.notEqual(new Slots(dir, 'aaaaaaaa').acquire('b', ALIVE), first);
  assert.notEqual(theirs.acquire('b', ALIVE), first);
});

test('the slot after the last one is the first one', () => {
  writeFileSync(join(dir, '.next'), String(SLOT_COUNT - 1));
  assert.deepEqual([ours.acquire('a', ALIVE), ours.acquire('b', ALIVE)], [SLOT_COUNT - 1, 0]);
});

test('a later hostd finds the slots of an earlier one', () => {
  const slot = ours.acquire('a', ALIVE);
  const later = new Slots(dir, 'aaaaaaaa');
  assert.equal(later.find('a'), slot);
  later.release(slot, 'a');
  assert.equal(later.find('a'), undefined);
});

test('a file that a crash left incomplete holds no slot', () => {
  writeFileSync(join(dir, '0'), '{"installationId":"bb');
  assert.equal(ours.acquire('a', ALIVE), 0);
  assert.deepEqual(readdirSync(dir).sort(), ['.lock', '.next', '0']);
});

test('id and address ranges of different slots never overlap', () => {
  for (const slot of [0, 1, 63, 64, SLOT_COUNT - 2]) {
    const range = idRangeOfSlot(slot);
    assert.equal(range.base + range.size, idRangeOfSlot(slot + 1).base);
    assert.notEqual(addressesOfSlot(slot).host, addressesOfSlot(slot + 1).host);
  }
  assert.deepEqual(addressesOfSlot(0), { host: '198.18.0.1', sandbox: '198.18.0.2' });
  assert.deepEqual(addressesOfSlot(65), { host: '198.18.1.5', sandbox: '198.18.1.6' });
  assert.deepEqual(addressesOfSlot(SLOT_COUNT - 1), { host: '198.18.255.253', sandbox: '198.18.255.254' });
  const last = idRangeOfSlot(SLOT_COUNT - 1);
  assert.ok(last.base + last.size <= idRangeOfSlot(0).owner, 'no owner is in a range');
  assert.ok(last.owner <= 0x7fff_ffff);
});

test("names of links fit the kernel's limit", () => {
  assert.ok(linkName('aaaaaaaa', SLOT_COUNT - 1).length <= 15);
});
