import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { machineMemory } from '@cloche/layout';
import { HostdProcess, IDLE_COMMAND } from '../../testing/hostd-process.ts';
import { makeInstallation, makeSpec } from '../../testing/installation.ts';
import { instanceLeftovers } from '../../testing/leftovers.ts';

const NO_CAPACITY = [503, 'no_capacity'];

type Answer = Awaited<ReturnType<HostdProcess['call']>>;
const codeOf = ({ status, body }: Answer) => [status, body.error?.code];
const frozenOnes = async (hostd: HostdProcess) =>
  (await hostd.list()).filter(({ isFrozen }) => isFrozen).map(({ sandboxId }) => sandboxId);

describe('room in the memory of the machine', () => {
  test('a launch that leaves less memory than the operator keeps is refused, and leaves nothing', async () => {
    using installation = makeInstallation({ CLOCHE_MEMORY_KEEP_MB: String(1 << 24) });
    await using hostd = await HostdProcess.start(installation);
    const refused = await hostd.launch('sbx_a', await makeSpec(installation.config));
    assert.deepEqual(codeOf(refused), NO_CAPACITY);
    assert.match(refused.body.error.message, /CLOCHE_MEMORY_KEEP_MB/);
    assert.deepEqual(instanceLeftovers(installation.config), []);
  });

  test('a wake that leaves less memory than the operator keeps is refused, and the instance stays frozen', async () => {
    using installation = makeInstallation();
    const spec = await makeSpec(installation.config);
    await using before = await HostdProcess.start(installation);
    await before.launch('sbx_a', spec);
    await before.call('POST', '/instances/sbx_a/1/freeze');
    await before.close();
    const environment = { ...installation.environment, CLOCHE_MEMORY_KEEP_MB: String(1 << 24) };
    await using after = await HostdProcess.start({ ...installation, environment });
    assert.deepEqual(codeOf(await after.call('POST', '/instances/sbx_a/1/thaw')), NO_CAPACITY);
    assert.deepEqual(await frozenOnes(after), ['sbx_a']);
    // A server that gives up a wake freezes again, which takes no memory.
    assert.equal((await after.call('POST', '/instances/sbx_a/1/freeze')).status, 200);
    await after.stop('sbx_a');
  });

  test('a pause beyond what paused sandboxes may hold is refused, and the instance goes on', async () => {
    using installation = makeInstallation({ CLOCHE_PAUSED_MEMORY_MB: '1' });
    await using hostd = await HostdProcess.start(installation, [
      '/usr/bin/env',
      'node',
      '-e',
      'setInterval(() => 0, 1)',
    ]);
    await hostd.launch('sbx_a', await makeSpec(installation.config));
    const refused = await hostd.call('POST', '/instances/sbx_a/1/freeze');
    assert.deepEqual(codeOf(refused), NO_CAPACITY);
    assert.match(refused.body.error.message, /CLOCHE_PAUSED_MEMORY_MB/);
    assert.deepEqual(await frozenOnes(hostd), []);
    // What gives up a pause thaws.
    assert.equal((await hostd.call('POST', '/instances/sbx_a/1/thaw')).status, 200);
  });

  test('limits of memory sum to at most what the operator promises, and a frozen instance gives its own back', async () => {
    using installation = makeInstallation({ CLOCHE_MEMORY_OVERCOMMIT: '1' });
    const { config } = installation;
    // Two of them are more than the machine has.
    const spec = await makeSpec(config, { memoryBytes: Math.floor(machineMemory().totalBytes * 0.6) });
    await using hostd = await HostdProcess.start(installation, IDLE_COMMAND);
    const launch = (id: string) => hostd.launch(id, spec).then(codeOf);
    assert.deepEqual(await launch('sbx_a'), [200, undefined]);
    assert.deepEqual(await launch('sbx_b'), NO_CAPACITY);
    assert.deepEqual(await launch('sbx_a'), [200, undefined], 'the one that lives is found');
    await hostd.call('POST', '/instances/sbx_a/1/freeze');
    assert.deepEqual(await launch('sbx_b'), [200, undefined]);
    assert.deepEqual(codeOf(await hostd.call('POST', '/instances/sbx_a/1/thaw')), NO_CAPACITY);
    assert.deepEqual(await frozenOnes(hostd), ['sbx_a']);
    await hostd.stop('sbx_b');
    assert.equal((await hostd.call('POST', '/instances/sbx_a/1/thaw')).status, 200);
    await hostd.stop('sbx_a');
    const at = await Promise.all(['sbx_c', 'sbx_d', 'sbx_e'].map(launch));
    assert.deepEqual(at.filter(([status]) => status === 200).length, 1, 'launches at the same time do not share room');
  });
});
