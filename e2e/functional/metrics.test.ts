import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { CurrentSandboxMetrics, SandboxMetrics } from '@cloche/contract';
import { runPaths } from '@cloche/layout';
import type { InstanceUse } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { HttpClient } from '../../bench/src/http-client.ts';
import { isolation, sameWithEachRuntime, skipUnless } from '../support/claims.ts';
import { groupTimeMs } from '../support/group-time.ts';
import { type OwnService, testService } from '../support/service.ts';
import { type TestInternet, testInternet } from '../support/test-internet.ts';

const MEBIBYTE = 1024 * 1024;
const BUSY_MS = 2000;
const DOWNLOADED_MEBIBYTES = 5;

let internet: TestInternet;
let service: OwnService;
before(async () => {
  internet = await testInternet();
  service = await testService({ CLOCHE_DNS_UPSTREAM: `${internet.address}:53` });
});
after(async () => {
  await service?.close();
  await internet?.[Symbol.asyncDispose]();
});

async function metricsOf(sandboxId: string, query = ''): Promise<SandboxMetrics> {
  const { status, body } = await service.api.get(`/v1/sandboxes/${sandboxId}/metrics${query}`);
  assert.equal(status, 200, JSON.stringify(body));
  return body.metrics;
}

/** Asks hostd what a sandbox has used since its instance was claimed. */
async function useOf(sandboxId: string): Promise<InstanceUse> {
  const hostd = new HttpClient({ socketPath: runPaths(service.runDir).hostdSocket });
  try {
    const { body } = await hostd.call('GET', '/uses');
    const { uses } = body as { uses: InstanceUse[] };
    return uses.find((use) => use.sandboxId === sandboxId) ?? assert.fail(`no use of ${sandboxId}`);
  } finally {
    hostd.close();
  }
}

/** Asserts that a value is at most 15 % and 8 MiB larger or smaller than expected. */
function assertNear(bytes: number, expected: number, what: string): void {
  const tolerance = expected * 0.15 + 8 * MEBIBYTE;
  assert.ok(Math.abs(bytes - expected) <= tolerance, `${what}: ${bytes}, not about ${expected}`);
}

describe('what a sandbox uses', () => {
  it('what a sandbox uses has the processor time that its code used, as the control group counts it', async () => {
    const { id } = await service.api.readySandbox();
    await service.api.run(id, 'import time');
    const [first, firstMs] = [await useOf(id), groupTimeMs(service, id)];
    const busy = `end = time.process_time() + ${BUSY_MS / 1000}\nwhile time.process_time() < end: pass`;
    await service.api.run(id, busy);
    const [last, lastMs] = [await useOf(id), groupTimeMs(service, id)];
    const countedMs = last.cpuMs - first.cpuMs;
    assert.ok(Math.abs(countedMs - (lastMs - firstMs)) < 50, `${countedMs} counted, ${lastMs - firstMs} by the group`);
    // gVisor measures the time of its processes by the clock, and its kernel uses processor time beside them.
    const [least, most] = isolation.kernel === 'shared' ? [0.98, 1.1] : [0, Number.POSITIVE_INFINITY];
    assert.ok(countedMs > BUSY_MS * least && countedMs < BUSY_MS * most + 100, `${countedMs} ms for ${BUSY_MS}`);
    await service.api.delete(`/v1/sandboxes/${id}`);
    const { usage } = (await service.api.get(`/v1/sandboxes/${id}/usage`)).body;
    assert.ok(usage.cpuMs >= last.cpuMs, `${usage.cpuMs} ms in the end, ${last.cpuMs} before`);
  });

  for (const networkPolicy of [{ mode: 'unrestricted' }, { mode: 'allowlist', hosts: ['cloche.test'] }]) {
    it(`what a sandbox uses has the bytes that it downloaded with the network ${networkPolicy.mode}`, async () => {
      const { id } = await service.api.readySandbox({ networkPolicy });
      const { networkBytes: first } = (await metricsOf(id)).now;
      const run = await service.api.run(
        id,
        `import urllib.request\nlen(urllib.request.urlopen("http://cloche.test/?mebibytes=${DOWNLOADED_MEBIBYTES}").read())`,
      );
      const bytes = DOWNLOADED_MEBIBYTES * MEBIBYTE;
      assert.equal(run.outputs[0]?.value, String(bytes), JSON.stringify(run));
      const { networkBytes: last } = (await metricsOf(id)).now;
      const received = last.ingress - first.ingress;
      assert.ok(received >= bytes && received < bytes * 1.1, `${received} bytes for ${bytes}`);
      assert.ok(last.egress > first.egress);
      await service.api.delete(`/v1/sandboxes/${id}`);
    });
  }
});

describe('the metrics of a sandbox', () => {
  it('the metrics of a sandbox show its processor, memory, disk and files, with their limits', async () => {
    const resources = { cpu: 1, memoryMb: 512, diskMb: 256, pids: 128 };
    const { id } = await service.api.readySandbox({ resources });
    await service.api.run(id, 'import subprocess');
    const { now: idle, limits } = await metricsOf(id);
    assert.equal(limits.cpu, 1);
    assert.equal(limits.memoryBytes, 512 * MEBIBYTE);
    assert.equal(limits.processes, 128);
    assert.ok(limits.diskBytes > 200 * MEBIBYTE && limits.diskBytes <= 256 * MEBIBYTE, `${limits.diskBytes}`);
    assert.ok(idle.memoryBytes > 0 && idle.memoryBytes < 300 * MEBIBYTE, `${idle.memoryBytes}`);

    await service.api.run(id, `held = b"x" * (150 << 20)`);
    const { now: holding } = await metricsOf(id);
    assertNear(holding.memoryBytes - idle.memoryBytes, 150 * MEBIBYTE, 'memory');

    await service.api.run(
      id,
      `import os
with open("/workspace/large", "wb") as file: file.write(os.urandom(40 << 20)); os.fsync(file.fileno())
for n in range(100): open(f"/workspace/{n}", "w").close()`,
    );
    const { now: full, limits: same } = await metricsOf(id);
    assert.ok(full.diskBytes !== undefined && idle.diskBytes !== undefined);
    assertNear(full.diskBytes - idle.diskBytes, 40 * MEBIBYTE, 'disk');
    assert.ok(full.inodes !== undefined && idle.inodes !== undefined && same.inodes !== undefined);
    assert.ok(full.inodes - idle.inodes >= 101 && full.inodes - idle.inodes < 130, `${full.inodes - idle.inodes}`);
    assert.ok(full.inodes < same.inodes);
    // Cached files are not memory that it needs.
    assertNear(full.memoryBytes, holding.memoryBytes, 'memory with a cached file');

    await service.api.run(id, 'busy = subprocess.Popen(["sh", "-c", "while :; do :; done"])');
    await eventually(async () => (await metricsOf(id)).now.cpu > 0.1);
    assert.ok((await metricsOf(id)).now.cpu < 1.5);
    await service.api.run(id, 'busy.kill()');
    await eventually(async () => (await metricsOf(id)).now.cpu < 0.05);
    await service.api.delete(`/v1/sandboxes/${id}`);
  });

  it(
    'the metrics of a sandbox show its processes where the host can see them',
    skipUnless('kernel', 'shared'),
    async () => {
      const { id } = await service.api.readySandbox();
      await service.api.run(id, 'import subprocess');
      const before = (await metricsOf(id)).now.processes ?? assert.fail('not measured');
      await service.api.run(id, 'started = [subprocess.Popen(["sleep", "600"]) for _ in range(7)]');
      const more = ((await metricsOf(id)).now.processes ?? 0) - before;
      assert.ok(more >= 7 && more <= 9, `${more}`);
      await service.api.delete(`/v1/sandboxes/${id}`);
    },
  );

  const kept = sameWithEachRuntime('hostd keeps the samples; the other tests read what it measures');
  it('the metrics of a sandbox have a sample every ten seconds, and end with the sandbox', kept, async () => {
    const { id } = await service.api.readySandbox();
    await eventually(async () => (await metricsOf(id)).samples.length >= 2, { within: 30_000 });
    const { samples, intervalMs } = await metricsOf(id);
    const [first, second] = samples.map(({ at }) => Date.parse(at));
    assert.ok(first && second && Math.abs(second - first - intervalMs) < 2000, `${second} after ${first}`);
    const later = await metricsOf(id, `?from=${new Date(second).toISOString()}`);
    assert.equal(later.samples[0]?.at, samples[1]?.at);
    await service.api.delete(`/v1/sandboxes/${id}`);
    const { status, body } = await service.api.get(`/v1/sandboxes/${id}/metrics`);
    assert.deepEqual([status, body.error.code], [409, 'sandbox_destroyed']);
  });

  // gVisor's own kernel uses processor time in an idle sandbox, more than the test tolerates.
  it('cost the sandbox no processor time', skipUnless('kernel', 'shared'), async () => {
    const { id } = await service.api.readySandbox();
    await service.api.run(id, '1');
    let settled = groupTimeMs(service, id);
    await eventually(async () => {
      await new Promise((resolve) => setTimeout(resolve, 500));
      const before = settled;
      settled = groupTimeMs(service, id);
      return settled - before < 1;
    });
    for (let asked = 0; asked < 100; asked += 1) {
      await metricsOf(id);
      const { data } = (await service.api.get('/v1/sandbox-metrics')).body as { data: CurrentSandboxMetrics[] };
      assert.ok(data.some(({ sandboxId }) => sandboxId === id));
    }
    // A request that its agent answers takes about 0.3 ms there.
    const spentMs = groupTimeMs(service, id) - settled;
    assert.ok(spentMs < 20, `${spentMs} ms for 200 requests`);
    await service.api.delete(`/v1/sandboxes/${id}`);
  });
});

describe('killing the processes of the host with -9', () => {
  it('killing the processes of the host with -9 loses nothing that was counted, and the next hostd measures again', async () => {
    const { id } = await service.api.readySandbox({ networkPolicy: { mode: 'allowlist', hosts: ['cloche.test'] } });
    await service.api.run(
      id,
      'import urllib.request; urllib.request.urlopen("http://cloche.test/?mebibytes=1").read()',
    );
    const before = await useOf(id);
    assert.ok(before.cpuMs > 0 && before.ingressBytes > MEBIBYTE);
    await service.kill('egress');
    await service.restart('egress');
    await service.kill('hostd');
    await service.restart('hostd');
    const afterwards = await useOf(id);
    for (const counter of ['cpuMs', 'egressBytes', 'ingressBytes'] as const) {
      assert.ok(afterwards[counter] >= before[counter], `${counter}: ${afterwards[counter]} after ${before[counter]}`);
    }
    // With gVisor, hostd forwards the connections to the agent, whose loss the service may notice first.
    if (isolation.hostRestarts === 'unnoticed') {
      const { now, limits } = await metricsOf(id);
      assert.ok(now.networkBytes.ingress >= before.ingressBytes && limits.diskBytes > 0);
    }
    await service.api.delete(`/v1/sandboxes/${id}`);
  });
});
