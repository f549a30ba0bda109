import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Slots } from '../addressing/slots.ts';
import { identifyProcess } from '../linux/process-identity.ts';
import { acquireGatewaySlot } from './gateway-slot.ts';

describe('the slot of a gateway', () => {
  let dir: string;
  let slots: Slots;
  const self = identifyProcess(process.pid) ?? assert.fail();
  before(() => {
    dir = mkdtempSync(join(tmpdir(), 'cloche-slots-'));
    slots = new Slots(dir, 'abcd1234');
  });
  after(() => rmSync(dir, { recursive: true }));

  test('the slot of a gateway is one at whose address the ports of egress are free; slots that were tried are released', () => {
    const orphans = ['198.18.0.1', '198.18.0.5'];
    const slot = acquireGatewaySlot(slots, self, (address, [port = 0]) =>
      orphans.includes(address) ? [{ address, port }] : [],
    );
    assert.equal(slot, 2);
    assert.deepEqual(
      readdirSync(dir).filter((name) => /\d/.test(name)),
      ['2'],
    );
  });

  test('the slot of a gateway cannot be acquired while a program uses a port at every address; the error names the port', () => {
    assert.throws(
      () => acquireGatewaySlot(slots, self, () => [{ address: '0.0.0.0', port: 10_053 }]),
      /another program uses 0\.0\.0\.0:10053; find it with `ss -lntup sport = :10053`/,
    );
    assert.deepEqual(
      readdirSync(dir).filter((name) => /\d/.test(name)),
      ['2'],
    );
  });
});
