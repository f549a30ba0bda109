/** A real hostd that is replaced by others, which announce versions around the server's own, beside a live instance. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { HOSTD_PROTOCOL_VERSION, type LaunchSpec } from '@cloche/protocol';
import { type HostdFixture, openHostd } from '../../../testing/hostd.ts';
import type { Instance } from '../runtime-driver.ts';

describe('beside a live instance, a hostd that announces', () => {
  const patience = () => AbortSignal.timeout(60_000);
  const refused = { name: 'LaunchError', kind: 'incompatible' };
  let hostd: HostdFixture;
  let spec: LaunchSpec;
  let instance: Instance;
  before(async () => {
    hostd = await openHostd();
    const [version] = await hostd.driver.templateVersions();
    assert.ok(version, 'a template is built');
    const resources = { cpu: 1, memoryBytes: 2 ** 29, diskBytes: 2 ** 28, pids: 128 };
    const source = { kind: 'template', templateVersionId: version.id } as const;
    spec = { source, resources, network: { mode: 'deny-all' } };
    ({ instance } = await hostd.driver.launch('sbx_window', 1, spec, patience()));
  });
  after(() => hostd?.close());

  it('the version before the one of the server is asked for it, launches and stops others', async () => {
    await hostd.restart({ HOSTD_PROTOCOL_VERSION: HOSTD_PROTOCOL_VERSION - 1 });
    assert.deepEqual(await hostd.driver.find(instance, patience()), instance);
    const other = await hostd.driver.launch('sbx_other', 1, spec, patience());
    await hostd.driver.stop('sbx_other', 1);
    assert.equal(await hostd.driver.find(other.instance, patience()), undefined);
  });

  it('the version after the one of the server is asked nothing, and the agent goes on', async () => {
    await hostd.restart({ HOSTD_PROTOCOL_VERSION: HOSTD_PROTOCOL_VERSION + 1 });
    const { driver } = hostd;
    await assert.rejects(driver.find(instance, patience()), refused);
    await assert.rejects(driver.stop('sbx_window', 1), refused);
    await assert.rejects(driver.launch('sbx_other', 1, spec, patience()), refused);
    const [listing] = await driver.list();
    assert.ok(listing && 'unknown' in listing);
    const agent = await driver.connect(instance, patience());
    await agent.close();

    await hostd.restart();
    assert.deepEqual(await driver.find(instance, patience()), instance);
  });
});
