/** Tests which part of a policy still holds when the process that enforces it is tampered with, or has ended. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { asUser, execInside } from './support/attackers.ts';
import { GATED, type PolicyWorld, policyWorld } from './support/policy-world.ts';

let world: PolicyWorld;
before(async () => {
  world = await policyWorld();
});
after(() => world?.[Symbol.asyncDispose]());

const NOT_REACHED = /^(?!reached|answered)/;

it('files that root of a sandbox may change decide nothing', async () => {
  const way = 'http to a denied host by urllib';
  const changes = {
    'the name of a denied host at an allowed address': `echo "${world.internet.address} denied.test" >> /etc/hosts`,
    'another resolver': `sed -i '/denied/d' /etc/hosts; echo "nameserver ${world.internet.otherAddress}" > /etc/resolv.conf`,
  };
  for (const name of GATED) {
    for (const [change, command] of Object.entries(changes)) {
      await execInside(world.service, world.ids[name], [
        '/bin/sh',
        '-c',
        `cp -n /etc/resolv.conf /etc/resolv.conf.old; ${command}`,
      ]);
      assert.match((await world.attack(name, [way]))[way] ?? 'reached', NOT_REACHED, `${name}: ${change}`);
    }
    await execInside(world.service, world.ids[name], ['/bin/sh', '-c', 'cp /etc/resolv.conf.old /etc/resolv.conf']);
  }
  // Shows the effect of a changed resolver without a gateway: its answers are believed.
  await execInside(world.service, world.ids.open, [
    '/bin/sh',
    '-c',
    `echo "${world.internet.otherAddress} moved.test" >> /etc/hosts`,
  ]);
  const moved = 'import urllib.request; print(urllib.request.urlopen("http://moved.test/", timeout=4).read().decode())';
  assert.match(await asUser(world.service, world.ids.open, moved), /^reached/);
});

describe('when the gateway is killed', () => {
  const ways = [
    'http to an allowed host by urllib',
    'https to an allowed host by urllib',
    'raw TCP to an allowed address',
    'data in a unlisted name, to another resolver',
  ];

  it('gated sandboxes have no TCP and no look-ups, and have them again when it is back', async () => {
    await world.service.kill('egress');
    const open = await world.attack('open', ['raw TCP to an allowed address', 'UDP to an allowed address']);
    assert.deepEqual(Object.values(open), ['reached', 'reached']);
    await eachGated(async (name) => {
      const words = await world.attack(name, ways);
      for (const way of ways) assert.match(words[way] ?? 'reached', NOT_REACHED, `${name}: ${way}`);
    });
    // Traffic that the kernel forwards or refuses without the gateway is not affected.
    const datagrams = ['UDP to an allowed address', 'UDP to a denied address', 'QUIC to port 443'];
    assert.deepEqual(
      Object.values(await world.attack('deny', datagrams)).map((word) => word === 'reached'),
      [true, false, false],
    );

    await world.service.restart('egress');
    const [permitted = '', permittedByTls = ''] = ways;
    const denied = 'http to a denied host by urllib';
    await eachGated(async (name) => {
      await eventually(async () => (await world.attack(name, [permitted]))[permitted] === 'reached');
      const words = await world.attack(name, [permittedByTls, denied]);
      assert.equal(words[permittedByTls], 'reached');
      assert.match(words[denied] ?? 'reached', NOT_REACHED);
    });
  });

  it('a gated sandbox cannot be created meanwhile: it is failed, and never unrestricted', async () => {
    await world.service.kill('egress');
    const networkPolicy = { mode: 'allowlist', hosts: ['allowed.test'] };
    const { body } = await world.service.api.post('/v1/sandboxes', { networkPolicy });
    const ended = await world.service.api.get(`/v1/sandboxes/${body.sandbox.id}?waitFor=ready&waitMs=20000`);
    assert.equal(ended.body.sandbox.status, 'failed');
    assert.match(ended.body.sandbox.failureReason, /network/);
    await world.service.restart('egress');
    await world.service.api.readySandbox({ networkPolicy });
  });
});

async function eachGated(act: (name: (typeof GATED)[number]) => Promise<void>): Promise<void> {
  await Promise.all(GATED.map(act));
}
