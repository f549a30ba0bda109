import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checkFirewall } from './firewall-check.ts';

const ours = { table: 'cloche_abcd1234', name: 'through_host', hook: 'forward', policy: 'accept' };
const forward = { table: 'filter', name: 'FORWARD', hook: 'forward', policy: 'drop' };

describe("the host's firewall", () => {
  it('is fine where it forwards', async () => {
    assert.equal((await checkFirewall(async () => [ours])).status, 'ok');
  });

  it('is a warning with a remedy where it drops forwarded packets', async () => {
    const { status, found, remedy } = await checkFirewall(async () => [ours, forward]);
    assert.equal(status, 'warning');
    assert.match(found, /filter FORWARD/);
    assert.match(remedy, /iifname "cl\*" accept/);
  });

  it("is fine with Docker's rules, which have a chain for the host's owner", async () => {
    const docker = { table: 'filter', name: 'DOCKER-USER' };
    assert.equal((await checkFirewall(async () => [forward, docker])).status, 'ok');
    const another = { table: 'firewalld', name: 'filter_FORWARD', hook: 'forward', policy: 'drop' };
    assert.equal((await checkFirewall(async () => [forward, docker, another])).status, 'warning');
  });

  it('is fine where no rules can be read', async () => {
    assert.equal((await checkFirewall(() => Promise.reject(new Error('no nft')))).status, 'ok');
  });
});
