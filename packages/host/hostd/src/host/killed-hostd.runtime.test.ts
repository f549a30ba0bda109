import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { initPid } from '../../testing/inside.ts';
import { makeInstallation, makeSpec } from '../../testing/installation.ts';
import { hostLeftovers, instanceLeftovers } from '../../testing/leftovers.ts';
import { BOOT_ID } from '../linux/process-identity.ts';

describe('hostd, killed', () => {
  test('hostd, killed and restarted, lists and stops live instances', async () => {
    using installation = makeInstallation();
    const { config } = installation;
    await using before = await HostdProcess.start(installation);
    const { body } = await before.launch('sbx_a', await makeSpec(config, { mode: 'unrestricted' }));
    const pid = initPid(config, 'sbx_a');
    await before.kill();

    await using after = await HostdProcess.start(installation);
    const { agentAnswers: _, kernelReady: __, ...instance } = body;
    assert.deepEqual(await after.list(), [instance]);
    assert.equal(initPid(config, 'sbx_a'), pid);
    assert.ok(existsSync(body.agentSocketPath));
    assert.equal((await after.stop('sbx_a')).status, 200);
    await after.close();
    assert.deepEqual(hostLeftovers(config), []);
  });

  test('during launches, leaves nothing after its restart', async () => {
    using installation = makeInstallation();
    const { config } = installation;
    const spec = await makeSpec(config, { mode: 'unrestricted' });
    for (const patienceMs of [5, 15, 25, 35, 45, 60, 80]) {
      await using before = await HostdProcess.start(installation);
      const launches = ['sbx_a', 'sbx_b', 'sbx_c'].map((id) => before.launch(id, spec).catch(() => {}));
      await new Promise((resolve) => setTimeout(resolve, patienceMs));
      await before.kill();
      await Promise.all(launches);

      await using after = await HostdProcess.start(installation);
      for (const { sandboxId } of await after.list()) await after.stop(sandboxId);
      assert.deepEqual(instanceLeftovers(config), []);
      await after.close();
    }
    assert.deepEqual(hostLeftovers(config), []);
  });

  test('by SIGTERM during launches, tells their callers that it stops, and leaves nothing of these launches', async () => {
    using installation = makeInstallation();
    const { config } = installation;
    const spec = await makeSpec(config, { mode: 'unrestricted' });
    await using before = await HostdProcess.start(installation);
    // More than are launched in parallel, so that some have not ended when the first answer comes.
    const ids = Array.from({ length: 12 }, (_, index) => `sbx_${index}`);
    const launches = ids.map(async (id) => ({ id, ...(await before.launch(id, spec)) }));
    await Promise.race(launches);
    await before.close();
    const answers = await Promise.all(launches);
    const refused = answers.filter(({ status }) => status !== 200);
    assert.deepEqual([...new Set(refused.map(({ status, body }) => `${status} ${body.error.code}`))], ['503 stopping']);

    await using after = await HostdProcess.start(installation);
    const launched = answers.filter(({ status }) => status === 200).map(({ id }) => id);
    assert.deepEqual((await after.list()).map(({ sandboxId }) => sandboxId).sort(), launched.sort());
    for (const id of launched) await after.stop(id);
    await after.close();
    assert.deepEqual(hostLeftovers(config), []);
  });

  test('with the machine, lists nothing that ran before the boot', async () => {
    using installation = makeInstallation();
    const { config } = installation;
    await using before = await HostdProcess.start(installation);
    await before.launch('sbx_a', await makeSpec(config));
    await before.kill();
    const file = join(config.hostdDir, 'instances', 'sbx_a-1', 'instance.json');
    writeFileSync(file, readFileSync(file, 'utf8').replace(BOOT_ID, '00000000-0000-0000-0000-000000000000'));

    await using after = await HostdProcess.start(installation);
    assert.deepEqual(await after.list(), []);
    await after.close();
    assert.deepEqual(hostLeftovers(config), []);
  });

  test('hostd, killed refuses to start twice for one installation', async () => {
    using installation = makeInstallation();
    await using first = await HostdProcess.start(installation);
    await assert.rejects(HostdProcess.start(installation), /another hostd already uses/);
    await first.close();
  });
});
