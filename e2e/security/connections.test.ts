/** The host tracks all connections in one table. Each sandbox has a share of the table, and leaves no entries in it. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { skipUnless } from '../support/claims.ts';
import { sharedService, type TestService } from '../support/service.ts';
import { type TestInternet, testInternet } from '../support/test-internet.ts';
import { trackedFlows } from '../support/tracked-flows.ts';
import { asUser, attempts, onHost } from './support/attackers.ts';

/**
 * Share of a sandbox in docs/threat-model.md: flows at a time, and all entries including those of ended connections.
 */
const MAX_FLOWS = 4096;
const MAX_ENTRIES = 8192;
/** More than a share, and at most a fiftieth of the host's table. */
const TRIED = 5000;
const KEPT = 100;
/** Limit of a sandbox's sockets in TIME_WAIT. */
const MAX_ENDED = 16_384;

let internet: TestInternet;
let service: TestService;
let neighbour: string;
before(async () => {
  internet = await testInternet();
  service = await sharedService();
  neighbour = (await service.api.readySandbox()).id;
});
after(async () => {
  await service?.close();
  await internet?.[Symbol.asyncDispose]();
});

/** Runs Python with the definitions of `attempts/network/flows.py`, and returns its output. */
const attack = async (sandboxId: string, lines: string) => (await asUser(service, sandboxId, script(lines))).trim();
const script = (lines: string) => `${attempts('network/flows', { address: internet.address })}\n${lines}`;

// In gVisor these sockets are memory of the sandbox's own kernel.
it('a sandbox keeps a bounded number of ended connections to itself', skipUnless('kernel', 'shared'), async () => {
  const attacker = (await service.api.readySandbox()).id;
  const lines = `print(connections_to_itself(${MAX_ENDED + 3000}))`;
  const kept = Number(await attack(attacker, lines));
  assert.ok(kept > MAX_ENDED / 2 && kept <= MAX_ENDED, `${kept} connections`);
  // The control: a network namespace without the limit.
  const loopback = 'import subprocess; subprocess.run(["ip", "link", "set", "lo", "up"], check=True)';
  const withoutBound = Number(await onHost('root of namespaces', script(`${loopback}\n${lines}`)));
  assert.ok(withoutBound > MAX_ENDED, `${withoutBound} connections`);
  await service.api.delete(`/v1/sandboxes/${attacker}`);
});

describe('a sandbox that opens more flows than its share', () => {
  it('a sandbox that opens more flows than its share is refused more, be they connections or datagrams, while its neighbour opens new ones', async () => {
    const attacker = (await service.api.readySandbox()).id;
    const address = await attack(attacker, 'print(own_address())');
    const neighbourAddress = await attack(neighbour, 'connections_that_stay(1); print(own_address())');
    await attack(attacker, `connections_that_stay(${KEPT}); datagrams(${TRIED})`);
    const flows = trackedFlows(address).length;
    assert.ok(flows > MAX_FLOWS / 2 && flows <= MAX_FLOWS, `${flows} flows`);
    assert.equal(await attack(attacker, 'print(connects())'), 'ConnectionRefusedError');
    assert.equal(await attack(neighbour, 'print(connects())'), 'connected');

    // The control: the same from the host, which has no share.
    await onHost('user', script(`datagrams(${TRIED})`));
    assert.ok(trackedFlows(internet.hostAddress).length >= TRIED);

    assert.ok(trackedFlows(address).some((line) => line.includes('ESTABLISHED')));
    await service.api.delete(`/v1/sandboxes/${attacker}`);
    await eventually(async () => trackedFlows(address).length === 0);
    assert.ok(trackedFlows(neighbourAddress).some((line) => line.includes('ESTABLISHED')));
    assert.equal(await attack(neighbour, 'print(connects())'), 'connected');
  });

  it('a sandbox that opens more flows than its share is refused more even if its connections end, which the kernel does not count', async () => {
    const attacker = (await service.api.readySandbox()).id;
    const address = await attack(attacker, 'print(own_address())');
    const done = Number(await attack(attacker, `print(connections_that_end(${KEPT * 10}))`));
    assert.ok(done >= KEPT, `${done} connections`);
    const entries = trackedFlows(address).length;
    assert.ok(entries <= MAX_ENTRIES, `${entries} entries`);
    await eventually(async () => trackedFlows(address).length === 0);

    // The control: entries of the host stay for two minutes.
    await onHost('user', script(`connections_that_end(${KEPT})`));
    const ended = () => trackedFlows(internet.hostAddress).filter((line) => line.includes('TIME_WAIT'));
    await eventually(async () => ended().length >= KEPT);
    await service.api.delete(`/v1/sandboxes/${attacker}`);
  });

  it('a sandbox that opens more flows than its share is refused more with DNS queries behind the gateway, and the kernel forgets them with the sandbox', async () => {
    const networkPolicy = { mode: 'allowlist', hosts: ['allowed.test'] };
    const attacker = (await service.api.readySandbox({ networkPolicy })).id;
    const address = await attack(attacker, 'print(own_address())');
    await attack(attacker, `look_ups(${TRIED})`);
    const flows = trackedFlows(address).length;
    assert.ok(flows > MAX_FLOWS / 2 && flows <= MAX_FLOWS, `${flows} flows`);
    await service.api.delete(`/v1/sandboxes/${attacker}`);
    await eventually(async () => trackedFlows(address).length === 0);
  });
});
