import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { globSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import type { InstanceUse } from '@cloche/protocol';
import { eventually, SLOWNESS } from '@cloche/testkit/eventually';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { hostdSuite } from '../../testing/hostd-suite.ts';
import { recordsOnDisk, runInside } from '../../testing/inside.ts';
import { MEBIBYTE, makeInstallation, makeSpec, type TestInstallation } from '../../testing/installation.ts';
import { addressesOfSlot } from '../addressing/address-plan.ts';
import { findHierarchies } from '../cgroups/cgroup-hierarchies.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { ProcessorGroups } from '../processor/processor-groups.ts';
import { InstanceMeter } from './instance-meter.ts';

const BUSY_MS = 1000;
/** Longest processor time of what such a process does besides: its start, and a server that waits. */
const START_MS = 200 * SLOWNESS;
const WAITING_MS = 100 * SLOWNESS;
/** Computes until its process has used `BUSY_MS` of processor time, then answers requests and computes no more. */
const BUSY_THEN_IDLE = [
  '/usr/bin/env',
  'node',
  '-e',
  `const usedMs = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1000; };
   while (usedMs() < ${BUSY_MS});
   require('http').createServer((_, r) => r.end('ok')).listen({ fd: 3 });`,
];
const DATAGRAMS = 40;
const PAYLOAD_BYTES = 1000;
/** With the headers of UDP, IP and Ethernet. */
const FRAME_BYTES = PAYLOAD_BYTES + 8 + 20 + 14;

async function useOf(hostd: HostdProcess, sandboxId: string): Promise<InstanceUse> {
  const { status, body } = await hostd.call('GET', '/uses');
  assert.equal(status, 200);
  const use = body.uses.find((one: InstanceUse) => one.sandboxId === sandboxId);
  assert.ok(use, `no use of ${sandboxId}`);
  return use;
}

function recordOf({ config }: TestInstallation, sandboxId: string) {
  const found = recordsOnDisk(config).find(({ record }) => record.sandboxId === sandboxId);
  assert.ok(found);
  return found;
}

/** Reads the processor time that the kernel has counted in an instance's group, in milliseconds. */
function groupMs(key: string): number {
  const [v1] = globSync(`/sys/fs/cgroup/cpu*/cloche-*/${key}/cpuacct.usage`);
  if (v1) return Number(readFileSync(v1, 'utf8')) / 1e6;
  const [v2] = globSync(`/sys/fs/cgroup/cloche-*/${key}/cpu.stat`);
  return Number(/usage_usec (\d+)/.exec(readFileSync(v2 ?? '', 'utf8'))?.[1]) / 1e3;
}

/** Waits until the instance has computed what its command computes. */
async function isIdle(key: string): Promise<void> {
  let last = -1;
  await eventually(
    () => {
      const now = groupMs(key);
      const isStill = now >= BUSY_MS && now - last < 1;
      last = now;
      return isStill;
    },
    { because: `${key} is idle` },
  );
}

/** Has the sandbox send datagrams to its gateway. Nothing listens there. */
async function sendFromInside(installation: TestInstallation, sandboxId: string): Promise<void> {
  const { host } = addressesOfSlot(recordOf(installation, sandboxId).record.slot);
  const send = `import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(${DATAGRAMS}): s.sendto(bytes(${PAYLOAD_BYTES}), ('${host}', 9))`;
  const { exitCode, stderr } = await runInside(installation.config, sandboxId, `python3 -c "${send}"`);
  assert.equal(exitCode, 0, stderr);
}

async function sendFromHost(installation: TestInstallation, sandboxId: string): Promise<void> {
  const { sandbox } = addressesOfSlot(recordOf(installation, sandboxId).record.slot);
  const socket = createSocket('udp4');
  const send = promisify<Buffer, number, string>(socket.send.bind(socket));
  for (let sent = 0; sent < DATAGRAMS; sent += 1) await send(Buffer.alloc(PAYLOAD_BYTES), 9, sandbox);
  socket.close();
}

/** Asserts that a counter grew by the datagrams and by little more: addresses are resolved, unreachable ports told. */
function assertCounted(bytes: number, what: string): void {
  const expected = DATAGRAMS * FRAME_BYTES;
  assert.ok(bytes >= expected && bytes < expected * 1.25, `${what}: ${bytes}, not about ${expected}`);
}

describe('the use of an instance', () => {
  const suite = hostdSuite(makeInstallation, BUSY_THEN_IDLE);

  test('the use of an instance counts the processor time of its processes, still after a kill of hostd, and up to its end', async () => {
    await suite.hostd.launch('sbx_busy', await makeSpec(suite.installation.config));
    const { key } = recordOf(suite.installation, 'sbx_busy');
    await isIdle(key);
    const used = await useOf(suite.hostd, 'sbx_busy');
    assert.ok(Math.abs(used.cpuMs - groupMs(key)) < 20, `${used.cpuMs} counted, the group says ${groupMs(key)}`);
    assert.ok(used.cpuMs >= BUSY_MS && used.cpuMs < BUSY_MS + START_MS, `${used.cpuMs}`);

    await suite.hostd.kill();
    suite.hostd = await HostdProcess.start(suite.installation, BUSY_THEN_IDLE);
    const afterwards = await useOf(suite.hostd, 'sbx_busy');
    assert.ok(afterwards.cpuMs >= used.cpuMs && afterwards.cpuMs < used.cpuMs + WAITING_MS);

    const { body } = await suite.hostd.stop('sbx_busy');
    assert.ok(
      body.use.cpuMs >= afterwards.cpuMs && body.use.cpuMs < afterwards.cpuMs + WAITING_MS,
      JSON.stringify(body),
    );
  });

  for (const policy of [
    { mode: 'unrestricted' as const },
    { mode: 'allowlist' as const, hosts: ['example.com'] },
    { mode: 'denylist' as const, hosts: ['example.com'] },
  ]) {
    test(`the use of an instance counts the bytes on its link, also those that are refused, in mode ${policy.mode}`, async () => {
      assert.equal(
        (await suite.hostd.launch('sbx_link', await makeSpec(suite.installation.config, policy))).status,
        200,
      );
      const first = await useOf(suite.hostd, 'sbx_link');
      await sendFromInside(suite.installation, 'sbx_link');
      const sent = await useOf(suite.hostd, 'sbx_link');
      assertCounted(sent.egressBytes - first.egressBytes, 'egress');
      await sendFromHost(suite.installation, 'sbx_link');
      const received = await useOf(suite.hostd, 'sbx_link');
      assertCounted(received.ingressBytes - sent.ingressBytes, 'ingress');

      await suite.hostd.kill();
      suite.hostd = await HostdProcess.start(suite.installation, BUSY_THEN_IDLE);
      const { body } = await suite.hostd.stop('sbx_link');
      assert.ok(body.use.egressBytes >= received.egressBytes);
      assert.ok(body.use.ingressBytes >= received.ingressBytes);
    });
  }

  test('the use of an instance is told of those alone that are named and live, by their generation', async () => {
    const spec = await makeSpec(suite.installation.config, { mode: 'deny-all' });
    for (const sandboxId of ['sbx_named', 'sbx_other']) await suite.hostd.launch(sandboxId, spec);
    const usesOf = async (...instances: { sandboxId: string; generation: number }[]) => {
      const { status, body } = await suite.hostd.call('POST', '/uses', { instances });
      assert.equal(status, 200, JSON.stringify(body));
      return body.uses as InstanceUse[];
    };
    const { generation } = await useOf(suite.hostd, 'sbx_named');
    const gone = { sandboxId: 'sbx_gone', generation: 1 };
    const [use, ...more] = await usesOf({ sandboxId: 'sbx_named', generation }, gone);
    assert.deepEqual([use?.sandboxId, use?.generation, more], ['sbx_named', generation, []]);
    assert.ok(use && use.cpuMs <= (await useOf(suite.hostd, 'sbx_named')).cpuMs);
    assert.deepEqual(await usesOf({ sandboxId: 'sbx_named', generation: generation + 1 }), []);
    assert.equal((await suite.hostd.call('POST', '/uses', { instances: [{ sandboxId: '../x' }] })).status, 400);
    await suite.hostd.stop('sbx_named');
    assert.deepEqual(await usesOf({ sandboxId: 'sbx_named', generation }), []);
  });

  test('the use of an instance is read in one read of a file, one question to the kernel and without writing, so that a claim stays short', async () => {
    await suite.hostd.launch('sbx_cheap', await makeSpec(suite.installation.config, { mode: 'unrestricted' }));
    const { key, record } = recordOf(suite.installation, 'sbx_cheap');
    const { installationId } = suite.installation.config;
    const processor = new ProcessorGroups(`cloche-${installationId}`, findHierarchies());
    const meter = new InstanceMeter({ installationId, processor });
    const calls = () => {
      const io = readFileSync('/proc/self/io', 'utf8');
      return { reads: Number(/syscr: (\d+)/.exec(io)?.[1]), writes: Number(/syscw: (\d+)/.exec(io)?.[1]) };
    };
    // Reading these counters counts as well, and the other threads of this process may read something now and then.
    const counted = Array.from({ length: 20 }, () => {
      const [first, second] = [calls(), calls()];
      assert.ok(meter.read(key as InstanceKey, record));
      const third = calls();
      return {
        reads: third.reads - second.reads - (second.reads - first.reads),
        writes: third.writes - second.writes - (second.writes - first.writes),
      };
    });
    assert.deepEqual(counted.sort((one, other) => one.reads - other.reads || one.writes - other.writes)[10], {
      // The bytes on the link are the answer to a question by netlink, which is no read.
      reads: 1,
      writes: 0,
    });
  });

  test('the use of an instance has no bytes without a link', async () => {
    await suite.hostd.launch('sbx_none', await makeSpec(suite.installation.config, { mode: 'deny-all' }));
    const { egressBytes, ingressBytes } = await useOf(suite.hostd, 'sbx_none');
    assert.deepEqual([egressBytes, ingressBytes], [0, 0]);
  });
});

test('an instance launched ahead counts from its claim on, also for the hostd after a killed one', async () => {
  using installation = makeInstallation({
    CLOCHE_POOL_SIZE: '3',
    CLOCHE_SANDBOX_DEFAULT_MEMORY_MB: '256',
    CLOCHE_SANDBOX_DEFAULT_DISK_MB: '64',
    CLOCHE_SANDBOX_DEFAULT_PIDS: '64',
  });
  await using hostd = await HostdProcess.start(installation, BUSY_THEN_IDLE);
  await hostd.list();
  await eventually(async () => (await hostd.call('GET', '/health')).body.pool.ready === 3, {
    because: 'the pool is full',
  });
  const pooled = recordsOnDisk(installation.config).filter(({ record }) => record.status === 'pooled');
  for (const { key } of pooled) await isIdle(key);
  const spec = await makeSpec(installation.config, { mode: 'unrestricted', memoryBytes: 256 * MEBIBYTE });
  await hostd.launch('sbx_claimed', spec);
  const claimed = recordOf(installation, 'sbx_claimed');
  assert.ok(pooled.some(({ key }) => key === claimed.key));

  const first = await useOf(hostd, 'sbx_claimed');
  assert.ok(first.cpuMs < BUSY_MS / 4, `${first.cpuMs} ms counted from before the claim`);
  await sendFromInside(installation, 'sbx_claimed');
  const sent = await useOf(hostd, 'sbx_claimed');
  assertCounted(sent.egressBytes, 'egress since the claim');

  await hostd.kill();
  await using next = await HostdProcess.start(installation, BUSY_THEN_IDLE);
  const afterwards = await useOf(next, 'sbx_claimed');
  assert.ok(afterwards.cpuMs >= sent.cpuMs && afterwards.cpuMs < BUSY_MS / 4, `${afterwards.cpuMs} ms`);
  // The kernel may have resolved addresses meanwhile.
  const grownBytes = afterwards.egressBytes - sent.egressBytes;
  assert.ok(grownBytes >= 0 && grownBytes < FRAME_BYTES, `${grownBytes} bytes`);
  await next.stop('sbx_claimed');
  await next.close();
});
