import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { describe, it } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { type EquipmentDeps, equipping } from './equip-e2b-sandbox.ts';

type Ends = 'at once' | 'later' | 'with an error';
const ENDS: readonly Ends[] = ['at once', 'later', 'with an error'];

/** Returns what happened, in its order, while a sandbox was equipped. */
async function equip(sudo: Ends, ports: Ends, settings = { sudo: true, publicPorts: true }): Promise<string[]> {
  const told: string[] = [];
  const act = (name: string, ends: Ends) => async () => {
    told.push(`${name} begins`);
    if (ends === 'with an error') throw new Error(`${name} fails`);
    if (ends === 'later') await after(20);
    told.push(`${name} ends`);
  };
  // Sound: nothing else of them is used.
  const deps = {
    e2b: settings,
    authenticator: { authenticate: async () => ({ scopes: new Set(['preview:create']), apiKeyId: 'key_1' }) },
    access: { getLive: async () => ({ id: 'sbx_1' }) },
    publicPorts: { publish: act('ports', ports) },
    sandboxUse: { with: act('sudo', sudo) },
    notes: { put: async () => undefined },
    callers: { addressOf: () => '127.0.0.1' },
    ids: { next: () => 'req_1' },
  } as unknown as EquipmentDeps;
  const request = { headers: { 'x-request-id': 'req_1' } } as unknown as IncomingMessage;
  await equipping(deps)(request, 'key', 'sbx_1', { publicPorts: true }).then(
    () => told.push('done'),
    (error: Error) => told.push(error.message),
  );
  await after(30);
  return told;
}

describe('sudo and public ports of a sandbox', () => {
  for (const sudo of ENDS) {
    for (const ports of ENDS) {
      it(`sudo and public ports of a sandbox are given side by side: sudo ${sudo}, ports ${ports}; nothing goes on after the answer`, async () => {
        const told = await equip(sudo, ports);
        // Neither waits for the other.
        if (sudo === 'later') assert.ok(told.indexOf('ports begins') < told.indexOf('sudo ends'), told.join());
        const failed = sudo === 'with an error' ? 'sudo fails' : ports === 'with an error' ? 'ports fails' : 'done';
        assert.equal(told.at(-1), failed);
      });
    }
  }

  it('sudo and public ports of a sandbox are given only where the operator permits them', async () => {
    assert.deepEqual(await equip('at once', 'at once', { sudo: false, publicPorts: false }), ['done']);
    assert.deepEqual(await equip('at once', 'later', { sudo: false, publicPorts: true }), [
      'ports begins',
      'ports ends',
      'done',
    ]);
    const sudo = await equip('later', 'at once', { sudo: true, publicPorts: false });
    assert.deepEqual(sudo, ['sudo begins', 'sudo ends', 'done']);
  });
});
