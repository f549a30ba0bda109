import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { describeDifference, type HostFootprint, hostFootprint } from '../support/host-footprint.ts';
import { type OwnService, testService } from '../support/service.ts';

let footprint: HostFootprint;
let first: OwnService;
let second: OwnService;
before(async () => {
  footprint = hostFootprint();
  [first, second] = await Promise.all([testService(), testService()]);
});
after(async () => {
  await first?.close();
  await second?.close();
});

describe('two installations on one host', () => {
  it('two installations on one host work side by side, and neither changes anything of the other', async () => {
    const [a, b] = await Promise.all([first.api.readySandbox(), second.api.readySandbox()]);
    assert.equal((await first.api.get(`/v1/sandboxes/${b.id}`)).status, 404);
    await Promise.all([first.restart('hostd'), first.restart('server')]);
    assert.equal((await second.api.run(b.id, '1 + 1')).outputs[0]?.value, '2');
    assert.equal((await first.api.run(a.id, '1 + 1')).outputs[0]?.value, '2');
    assert.equal((await first.api.delete(`/v1/sandboxes/${a.id}`)).status, 200);
    assert.equal((await second.api.run(b.id, '2 + 2')).outputs[0]?.value, '4');
  });

  it('two installations on one host leave nothing on the host when they have ended', async () => {
    await first.close();
    await second.close();
    const ids = [first.installationId, second.installationId];
    let left: string[] = [];
    await eventually(() => {
      left = describeDifference(footprint, hostFootprint(), (id) => ids.includes(id));
      return left.length === 0;
    }).catch(() => undefined);
    // Not read again: a process that others on this host are just starting has no known owner yet.
    assert.deepEqual(left, []);
  });
});
