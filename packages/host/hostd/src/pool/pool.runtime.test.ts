import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import type { LaunchSpec } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { EVER, hostdSuite } from '../../testing/hostd-suite.ts';
import { initPid, recordsOnDisk, runInside } from '../../testing/inside.ts';
import { MEBIBYTE, makeInstallation, makeSpec, type TestInstallation } from '../../testing/installation.ts';
import { hostLeftovers, instanceLeftovers } from '../../testing/leftovers.ts';
import { findHierarchies } from '../cgroups/cgroup-hierarchies.ts';
import { GroupUsage, WHOLE_GROUP } from '../cgroups/group-usage.ts';
import { isProcessAlive } from '../linux/process-identity.ts';

/** Answers every request, as an agent does. */
const ANSWERING = [
  '/usr/bin/env',
  'node',
  '-e',
  "require('http').createServer((_, r) => r.end('ok')).listen({ fd: 3 })",
];
const SIZE = 3;
const POLICY = { mode: 'allowlist' as const, hosts: ['example.com'] };

/** Makes an installation whose pool has instances with an open network and the default resources from the start. */
function withPool(size = SIZE): TestInstallation {
  return makeInstallation({
    CLOCHE_POOL_SIZE: String(size),
    CLOCHE_SANDBOX_DEFAULT_MEMORY_MB: '256',
    CLOCHE_SANDBOX_DEFAULT_DISK_MB: '64',
    CLOCHE_SANDBOX_DEFAULT_PIDS: '64',
  });
}

async function filled(hostd: HostdProcess): Promise<void> {
  // As a server does.
  await hostd.list();
  await eventually(
    async () => {
      const { size, ready } = (await hostd.call('GET', '/health')).body.pool;
      return ready === size;
    },
    { because: 'the pool is full' },
  );
}

async function poolOf(hostd: HostdProcess) {
  return (await hostd.call('GET', '/health')).body.pool;
}

/** One waiting instance of each kind is enough for a claim of any of them. */
const specOf = ({ config }: TestInstallation, changes = {}): Promise<LaunchSpec> =>
  makeSpec(config, { mode: 'unrestricted', memoryBytes: 256 * MEBIBYTE, ...changes });

test('nothing is launched ahead before a server asks', async () => {
  using installation = withPool();
  await using hostd = await HostdProcess.start(installation, ANSWERING);
  for (let asked = 0; asked < 50; asked += 1) await poolOf(hostd);
  assert.deepEqual(recordsOnDisk(installation.config), []);
  await filled(hostd);
});

describe('instances launched ahead', () => {
  const suite = hostdSuite(withPool, ANSWERING);

  test('instances launched ahead are not listed', async () => {
    await filled(suite.hostd);
    assert.deepEqual(await suite.hostd.list(), []);
    assert.equal(
      recordsOnDisk(suite.installation.config).filter(({ record }) => record.status === 'pooled').length,
      SIZE,
    );
  });

  test('instances launched ahead are measured with their agents, which the groups of their kernels do not count', async () => {
    await filled(suite.hostd);
    const { config } = suite.installation;
    const [waiting = assert.fail()] = recordsOnDisk(config);
    const usage = new GroupUsage(`cloche-${config.installationId}`, findHierarchies(), WHOLE_GROUP);
    // Node.js alone, in place of an agent, has that much.
    assert.ok((usage.read(waiting.key)?.memoryBytes ?? 0) > 8 * MEBIBYTE, JSON.stringify(usage.read(waiting.key)));
  });

  test('instances launched ahead are each claimed by one sandbox, which is then listed, answers and can be stopped', async () => {
    await filled(suite.hostd);
    const before = await poolOf(suite.hostd);
    const waiting = recordsOnDisk(suite.installation.config).map(({ record }) => record.init.pid);
    const spec = await specOf(suite.installation);
    const answers = await Promise.all(
      ['sbx_a', 'sbx_b', 'sbx_c', 'sbx_d', 'sbx_e'].map((id) => suite.hostd.launch(id, spec)),
    );
    assert.ok(answers.every(({ status }) => status === 200));
    const claimed = answers.filter(({ body }) => body.agentAnswers);
    assert.ok(claimed.length > 0);
    const pids = claimed.map(({ body }) => initPid(suite.installation.config, body.sandboxId));
    assert.equal(new Set(pids).size, claimed.length);
    // Further instances may have been launched ahead meanwhile.
    assert.ok(pids.some((pid) => waiting.includes(pid)));

    assert.equal((await suite.hostd.list()).length, answers.length);
    const after = await poolOf(suite.hostd);
    assert.deepEqual([after.hits - before.hits, after.misses - before.misses], [claimed.length, 5 - claimed.length]);
    const [first] = claimed;
    const again = await suite.hostd.launch(first?.body.sandboxId, spec);
    assert.deepEqual({ ...again.body, agentAnswers: true, kernelReady: first?.body.kernelReady }, first?.body);
    assert.equal((await suite.hostd.stop(first?.body.sandboxId)).status, 200);
    assert.equal((await suite.hostd.list()).length, answers.length - 1);
  });

  test('with files of a client have no network until they are claimed, and then that of their sandbox', async () => {
    const { hostd, installation } = suite;
    for (const changes of [{}, POLICY]) {
      const spec = await specOf(installation, changes);
      await hostd.launch('sbx_captured', spec);
      const capture = { root: 'changes', purpose: 'version', manifest: { languages: ['python'], env: {} } };
      const { body: version } = await hostd.call('POST', '/instances/sbx_captured/1/capture', capture);
      const ofVersion = { ...spec, source: { ...spec.source, templateVersionId: version.id } };
      assert.equal((await hostd.call('POST', '/expected-launches', ofVersion)).status, 204);
      const [waiting = assert.fail('none waits'), ...more] = recordsOnDisk(installation.config).filter(
        ({ record }) => record.status === 'pooled' && record.source.templateVersionId === version.id,
      );
      assert.deepEqual(more, []);
      assert.ok(!hasLink(waiting.record.init.pid));
      assert.equal((await hostd.launch('sbx_a', ofVersion)).body.agentAnswers, true);
      assert.equal(initPid(installation.config, 'sbx_a'), waiting.record.init.pid);
      assert.ok(hasLink(waiting.record.init.pid));
      await hostd.stop('sbx_a');
      // So that the next version has the place of this one.
      assert.equal((await hostd.call('DELETE', `/captured-versions/${version.id}?madeAt=${EVER}`)).status, 204);
    }
  });

  test('instances launched ahead that load Python themselves leave the processor to every sandbox until they are claimed', async () => {
    const { hostd, installation } = suite;
    const spec = await specOf(installation);
    await hostd.launch('sbx_captured', spec);
    const capture = { root: 'changes', purpose: 'version', manifest: { languages: ['python'], env: {} } };
    const { body: version } = await hostd.call('POST', '/instances/sbx_captured/1/capture', capture);
    const ofVersion = { ...spec, source: { ...spec.source, templateVersionId: version.id } };
    for (const id of ['sbx_a', 'sbx_b', 'sbx_c']) await hostd.launch(id, ofVersion);
    const waiting = () =>
      recordsOnDisk(installation.config).find(
        ({ record }) => record.status === 'pooled' && record.source.templateVersionId === version.id,
      )?.record.init.pid;
    await eventually(
      () => {
        const pid = waiting();
        // All that may wait by default have less than one sandbox together.
        return pid !== undefined && 64 * processorWeight(pid) < processorWeight(initPid(installation.config, 'sbx_a'));
      },
      { because: 'one waits that has little of the processor' },
    );
    const claimed = waiting() ?? 0;
    const before = processorWeight(claimed);
    await Promise.all(['sbx_d', 'sbx_e', 'sbx_f'].map((id) => hostd.launch(id, ofVersion)));
    await eventually(() => processorWeight(claimed) > 64 * before, {
      because: 'it is claimed and has the weight of a sandbox',
    });
  });

  test('instances launched ahead have the limits and the link of an instance that is launched for its sandbox', async () => {
    await filled(suite.hostd);
    // Too many at once for all of them to have been launched ahead.
    const ids = Array.from({ length: 4 * SIZE }, (_, index) => `sbx_${index}`);
    const spec = await specOf(suite.installation);
    const answers = await Promise.all(ids.map((id) => suite.hostd.launch(id, spec)));
    const look = `cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null
      cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null; ls /proc/sys/net/ipv4/conf`;
    const seen = await Promise.all(
      answers.map(async ({ body }) => ({
        agentAnswers: body.agentAnswers,
        stdout: (await runInside(suite.installation.config, body.sandboxId, look)).stdout,
      })),
    );
    assert.ok(seen.some(({ agentAnswers }) => agentAnswers) && seen.some(({ agentAnswers }) => !agentAnswers));
    for (const { stdout } of seen) assert.equal(stdout, seen[0]?.stdout);
    assert.match(seen[0]?.stdout ?? '', /eth0/);
  });

  test('instances launched ahead are not claimed for another limit, network or template', async () => {
    await filled(suite.hostd);
    const spec = await specOf(suite.installation);
    for (const other of [
      { ...spec, resources: { ...spec.resources, memoryBytes: 128 * MEBIBYTE } },
      { ...spec, network: { mode: 'deny-all' as const } },
    ]) {
      const { body } = await suite.hostd.launch('sbx_a', other);
      assert.equal(body.agentAnswers, false);
      await suite.hostd.stop('sbx_a');
    }
  });

  test('instances launched ahead of a gated kind are closed until they are claimed, and then have the policy of their sandbox', async () => {
    const spec = await specOf(suite.installation, POLICY);
    for (const id of ['sbx_a', 'sbx_b']) await suite.hostd.launch(id, spec);
    const gated = () =>
      recordsOnDisk(suite.installation.config).filter(
        ({ key, record }) => key.startsWith('pool_') && record.status === 'pooled' && hasLink(record.init.pid),
      );
    await eventually(async () => gated().length > 0 && (await poolOf(suite.hostd)).ready === SIZE, {
      because: 'one of the kind waits',
    });
    assert.equal(suite.egress.sandboxes.size, 2);

    const { body } = await suite.hostd.launch('sbx_c', spec);
    assert.equal(body.agentAnswers, true);
    assert.deepEqual(
      [...suite.egress.sandboxes.values()].map(({ sandboxId, policy }) => ({ sandboxId, policy })),
      ['sbx_a', 'sbx_b', 'sbx_c'].map((sandboxId) => ({ sandboxId, policy: POLICY })),
    );
    suite.egress.onPut = () => {
      throw new Error('refused');
    };
    await eventually(async () => (await poolOf(suite.hostd)).ready === SIZE, { because: 'another waits' });
    const refused = await suite.hostd.launch('sbx_d', spec);
    suite.egress.onPut = () => {};
    assert.equal(refused.status, 500);
    assert.ok(!(await suite.hostd.list()).some(({ sandboxId }) => sandboxId === 'sbx_d'));
  });

  test('instances launched ahead are neither claimed nor kept after they died', async () => {
    await filled(suite.hostd);
    const waiting = recordsOnDisk(suite.installation.config).filter(({ record }) => record.status === 'pooled');
    for (const { record } of waiting) process.kill(record.init.pid, 'SIGKILL');
    await eventually(() => waiting.every(({ record }) => !isProcessAlive(record.init)), { because: 'they are dead' });
    const { body } = await suite.hostd.launch('sbx_a', await specOf(suite.installation));
    const died = waiting.map(({ record }) => record.init.pid);
    assert.ok(!died.includes(initPid(suite.installation.config, body.sandboxId)));
    await filled(suite.hostd);
    const keys = () => recordsOnDisk(suite.installation.config).map(({ key }) => key);
    await eventually(() => waiting.every(({ key }) => !keys().includes(key)), { because: 'they are removed' });
  });
});

describe('hostd with instances launched ahead', () => {
  test('killed and restarted, has the claimed instances and no others', async () => {
    using installation = withPool();
    const { config } = installation;
    await using before = await HostdProcess.start(installation, ANSWERING);
    await filled(before);
    const { body } = await before.launch('sbx_a', await specOf(installation));
    const pid = initPid(config, 'sbx_a');
    await before.kill();
    const waited = recordsOnDisk(config).filter(({ record }) => record.status === 'pooled');

    await using after = await HostdProcess.start(installation, ANSWERING);
    const { agentAnswers: _, kernelReady: __, ...instance } = body;
    assert.deepEqual(await after.list(), [instance]);
    assert.equal(initPid(config, 'sbx_a'), pid);
    const keys = new Set(recordsOnDisk(config).map(({ key }) => key));
    assert.ok(waited.every(({ key }) => !keys.has(key)));
    await after.stop('sbx_a');
    await after.close();
    assert.deepEqual(hostLeftovers(config), []);
  });

  test('hostd with instances launched ahead removes the unclaimed instances when it ends, and keeps the claimed ones', async () => {
    using installation = withPool();
    await using first = await HostdProcess.start(installation, ANSWERING);
    await filled(first);
    await first.launch('sbx_a', await specOf(installation));
    await first.close();
    assert.deepEqual(
      recordsOnDisk(installation.config).map(({ record }) => record.sandboxId),
      ['sbx_a'],
    );
    await using second = await HostdProcess.start(installation, ANSWERING);
    await second.stop('sbx_a');
    await second.close();
    assert.deepEqual(instanceLeftovers(installation.config), []);
    assert.deepEqual(hostLeftovers(installation.config), []);
  });

  test('hostd with instances launched ahead has what was requested before a restart', async () => {
    using installation = withPool();
    const spec = await specOf(installation, { memoryBytes: 128 * MEBIBYTE });
    await using first = await HostdProcess.start(installation, ANSWERING);
    for (const id of ['sbx_a', 'sbx_b']) {
      assert.equal((await first.launch(id, spec)).body.agentAnswers, false);
      await first.stop(id);
    }
    await first.close();
    await using second = await HostdProcess.start(installation, ANSWERING);
    await filled(second);
    assert.equal((await second.launch('sbx_c', spec)).body.agentAnswers, true);
    await second.stop('sbx_c');
    await second.close();
    assert.deepEqual(hostLeftovers(installation.config), []);
  });

  test('killed during claims, has each instance either listed or removed', async () => {
    using installation = withPool();
    const spec = await specOf(installation);
    for (const patienceMs of [0, 2, 4]) {
      await using before = await HostdProcess.start(installation, ANSWERING);
      await filled(before);
      const ids = ['sbx_a', 'sbx_b', 'sbx_c'];
      const claims = ids.map((id) => before.launch(id, spec).catch(() => undefined));
      await new Promise((resolve) => setTimeout(resolve, patienceMs));
      await before.kill();
      const answered = (await Promise.all(claims)).flatMap((answer) => answer?.body.sandboxId ?? []);

      await using after = await HostdProcess.start(installation, ANSWERING);
      const listed = (await after.list()).map(({ sandboxId }) => sandboxId);
      assert.ok(answered.every((id) => listed.includes(id)));
      assert.equal(new Set(listed.map((id) => initPid(installation.config, id))).size, listed.length);
      for (const id of listed) await after.stop(id);
      await after.close();
      assert.deepEqual(instanceLeftovers(installation.config), []);
    }
    assert.deepEqual(hostLeftovers(installation.config), []);
  });
});

/** Returns false for a process that has ended since its record was read. */
function hasLink(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/net/dev`, 'utf8').includes('eth0');
  } catch {
    return false;
  }
}

/** Returns the share of the processor that the instance of a process has beside others. */
function processorWeight(pid: number): number {
  const lines = readFileSync(`/proc/${pid}/cgroup`, 'utf8').trim().split('\n');
  const groups = new Map(lines.map((line) => line.split(':').slice(1) as [string, string]));
  const [controllers = ''] = groups.keys().filter((names) => names.split(',').includes('cpu'));
  const mountPoint = findHierarchies().find((each) =>
    controllers === '' ? each.version === 2 : each.controllers.includes('cpu'),
  )?.mountPoint;
  // Its processes may be in groups below that of the instance.
  const [, installation = '', instance = ''] = groups.get(controllers)?.split('/') ?? [];
  const file = controllers === '' ? 'cpu.weight' : 'cpu.shares';
  return Number(readFileSync(`${mountPoint}/${installation}/${instance}/${file}`, 'utf8'));
}
