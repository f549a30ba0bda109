import assert from 'node:assert/strict';
import { existsSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { initPid, runInside } from '../../testing/inside.ts';
import { MEBIBYTE, makeInstallation, makeSpec, SERVICE_ID, type TestInstallation } from '../../testing/installation.ts';
import { hostLeftovers, instanceLeftovers } from '../../testing/leftovers.ts';
import { AGENT_SHARE, cpuQuotaUs } from '../cgroups/divided-group.ts';
import { OciCommand } from '../oci/oci-command.ts';
import { hasTimeNamespaces } from '../oci/open-runtime.ts';

/** For claims about the host's kernel: a runtime with its own kernel shows nothing of a sandbox to it. */
const sharesKernel = { skip: process.env.CLOCHE_OCI_RUNTIME === 'runsc' && 'gVisor has its own kernel' };

describe('hostd', () => {
  let installation: TestInstallation;
  let hostd: HostdProcess;

  before(async () => {
    installation = makeInstallation();
    hostd = await HostdProcess.start(installation);
  });

  afterEach(async () => {
    for (const { sandboxId } of await hostd.list()) await hostd.stop(sandboxId);
    assert.deepEqual(instanceLeftovers(installation.config), []);
  });

  after(async () => {
    await hostd.close();
    assert.deepEqual(hostLeftovers(installation.config), []);
    installation[Symbol.dispose]();
  });

  test('answers that it is ready, with its installation', async () => {
    const { status, body } = await hostd.call('GET', '/health');
    assert.equal(status, 200);
    assert.equal(body.status, 'ready');
    assert.equal(body.installationId, installation.config.installationId);
  });

  test("hostd serves its socket to root and the server's group only", () => {
    const { uid, gid, mode } = statSync(installation.config.run.hostdSocket);
    assert.deepEqual([uid, gid, mode & 0o777], [0, SERVICE_ID, 0o660]);
  });

  test('hostd lists the template versions that were built', async () => {
    const { body } = await hostd.call('GET', '/template-versions');
    const { templateVersionId } = (await makeSpec(installation.config)).source;
    assert.ok(body.templateVersions.some(({ id }: { id: string }) => id === templateVersionId));
  });

  test('hostd launches an instance that is listed until it is stopped', async () => {
    const spec = await makeSpec(installation.config);
    const { status, body } = await hostd.launch('sbx_a', spec);
    assert.equal(status, 200);
    const { agentAnswers: _, kernelReady: __, ...instance } = body;
    assert.deepEqual(await hostd.list(), [instance]);
    assert.equal(body.templateVersionId, spec.source.templateVersionId);

    assert.equal((await hostd.stop('sbx_a')).status, 200);
    assert.deepEqual(await hostd.list(), []);
    assert.deepEqual(instanceLeftovers(installation.config), []);
  });

  test('hostd answers a repeated launch with the live instance', async () => {
    const spec = await makeSpec(installation.config);
    const [first, second] = await Promise.all([hostd.launch('sbx_a', spec), hostd.launch('sbx_a', spec)]);
    assert.deepEqual(first.body, second.body);
    assert.deepEqual((await hostd.launch('sbx_a', spec)).body, first.body);
  });

  test('hostd answers the stop of an unknown or removed instance with success', async () => {
    assert.deepEqual(await hostd.stop('sbx_never'), { status: 200, body: {} });
    await hostd.launch('sbx_a', await makeSpec(installation.config));
    const answers = await Promise.all([hostd.stop('sbx_a'), hostd.stop('sbx_a')]);
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200],
    );
  });

  test("hostd lets only the server's user open an agent's socket", async () => {
    const { body } = await hostd.launch('sbx_a', await makeSpec(installation.config));
    const { uid, mode } = statSync(body.agentSocketPath);
    assert.deepEqual([uid, mode & 0o777], [SERVICE_ID, 0o600]);
    const folder = statSync(join(body.agentSocketPath, '..'));
    assert.deepEqual([folder.uid, folder.gid, folder.mode & 0o777], [0, SERVICE_ID, 0o750]);
  });

  test('hostd accepts more launches at once than it runs in parallel', async () => {
    const spec = await makeSpec(installation.config, { mode: 'unrestricted' });
    const ids = Array.from({ length: 10 }, (_, index) => `sbx_many${index}`);
    const answers = await Promise.all(ids.map((id) => hostd.launch(id, spec)));
    assert.deepEqual(
      answers.map(({ status }) => status),
      ids.map(() => 200),
    );
    assert.equal((await hostd.list()).length, ids.length);
    await Promise.all(ids.map((id) => hostd.stop(id)));
    assert.deepEqual(instanceLeftovers(installation.config), []);
  });

  test('hostd undoes a launch whose caller disconnects, at any step', async () => {
    const spec = await makeSpec(installation.config, { mode: 'unrestricted' });
    for (const patienceMs of [0, 5, 10, 20, 30, 40, 60]) {
      const answer = hostd.launch('sbx_a', spec, AbortSignal.timeout(patienceMs));
      await answer.catch(() => {});
      // The stop waits for the undo. It finds a sandbox only if the answer was already on its way.
      await hostd.stop('sbx_a');
      // hostd may have been too busy to read the launch before the stop, and then undoes it later.
      await eventually(() => instanceLeftovers(installation.config).length === 0, { because: 'nothing is left' });
    }
  });

  test('no longer lists an instance whose first process ended, and removes what is left of it', async () => {
    await hostd.launch('sbx_a', await makeSpec(installation.config));
    process.kill(initPid(installation.config, 'sbx_a'), 'SIGKILL');
    await eventually(async () => (await hostd.list()).length === 0, { because: 'it is unlisted' });
    await eventually(() => instanceLeftovers(installation.config).length === 0, { because: 'it is swept' });
  });

  test('hostd launches an instance again after it died', async () => {
    const spec = await makeSpec(installation.config);
    await hostd.launch('sbx_a', spec);
    const died = initPid(installation.config, 'sbx_a');
    process.kill(died, 'SIGKILL');
    await eventually(async () => (await hostd.list()).length === 0, { because: 'it is unlisted' });
    assert.equal((await hostd.launch('sbx_a', spec)).status, 200);
    assert.notEqual(initPid(installation.config, 'sbx_a'), died);
  });

  describe('refuses', () => {
    test('invalid sandbox names and unknown paths', async () => {
      const spec = await makeSpec(installation.config);
      const names = ['a', 'sbx_', 'sbx_a.b', 'sbx_a%2Fb', 'sbx_..', '..%2F..', `sbx_${'a'.repeat(41)}`, 'sbx_a%0A'];
      for (const name of names) {
        assert.equal((await hostd.launch(name, spec)).status, 400, name);
        assert.equal((await hostd.stop(name)).status, 400, name);
      }
      for (const generation of ['0', '-1', '1.5', '01', 'x', '9999999999']) {
        assert.equal((await hostd.call('PUT', `/instances/sbx_a/${generation}`, spec)).status, 400, generation);
      }
    });

    test('messages that do not fit the protocol, and names the field', async () => {
      const spec = await makeSpec(installation.config);
      const { status, body } = await hostd.launch('sbx_a', { ...spec, rootfs: '/etc' } as typeof spec);
      assert.equal(status, 400);
      assert.equal(body.error.code, 'bad_request');
      const tooMuch = { ...spec, resources: { ...spec.resources, cpu: 1000 } };
      assert.match((await hostd.launch('sbx_a', tooMuch)).body.error.message, /resources\/cpu/);
    });

    test('network modes that it cannot enforce, and launches nothing', async () => {
      // At the same time, because each launch waits 5 s for egress.
      const refused = (['allowlist', 'denylist'] as const).map(async (mode) => {
        const { status, body } = await hostd.launch(`sbx_${mode}`, await makeSpec(installation.config, { mode }));
        assert.deepEqual([status, body.error.code], [422, 'network_mode_unsupported']);
      });
      await Promise.all(refused);
      assert.deepEqual(instanceLeftovers(installation.config), []);
    });

    test('templates that this host does not have', async () => {
      const source = { kind: 'template', templateVersionId: 'tplv_none' } as const;
      const spec = { ...(await makeSpec(installation.config)), source };
      const { status, body } = await hostd.launch('sbx_a', spec);
      assert.deepEqual([status, body.error.code], [404, 'template_not_found']);
    });
  });

  describe('a sandbox', () => {
    test('a sandbox has its own namespaces, and ids that no user of the host has', sharesKernel, async () => {
      await hostd.launch('sbx_a', await makeSpec(installation.config));
      const status = readFileSync(`/proc/${initPid(installation.config, 'sbx_a')}/status`, 'utf8');
      const uid = Number(/^Uid:\s+(\d+)/m.exec(status)?.[1]);
      assert.ok(uid >= 0x1000_0000, `uid ${uid}`);
      const { ociRuntimeProgram: program } = installation.config;
      const hasTime = await hasTimeNamespaces(new OciCommand({ program, stateDir: '/nonexistent' }), true);
      const types = ['user', 'mnt', 'pid', 'net', 'ipc', 'uts', 'cgroup', ...(hasTime ? ['time'] : [])];
      const { stdout } = await runInside(installation.config, 'sbx_a', `cd /proc/1/ns; readlink ${types.join(' ')}`);
      const inside = stdout.trim().split('\n');
      assert.equal(inside.length, types.length);
      for (const type of types) assert.ok(!inside.includes(readlinkSync(`/proc/self/ns/${type}`)), type);
    });

    test('a sandbox cannot gain privileges, and its filter is on', sharesKernel, async () => {
      await hostd.launch('sbx_a', await makeSpec(installation.config));
      const pid = initPid(installation.config, 'sbx_a');
      // After `start` the process is still the runtime's until it has executed the command.
      await eventually(() => readlinkSync(`/proc/${pid}/exe`).endsWith('/sleep'), { because: 'it is its own program' });
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      assert.match(status, /^NoNewPrivs:\s+1$/m);
      assert.match(status, /^Seccomp:\s+2$/m);
      assert.match(status, /^CapBnd:\s+00000000800404fb$/m);
    });

    test("a sandbox sees its limits in the kernel's files", sharesKernel, async () => {
      const resources = { memoryBytes: 128 * MEBIBYTE, pids: 42, cpu: 0.5 };
      await hostd.launch('sbx_a', await makeSpec(installation.config, resources));
      const { stdout } = await runInside(
        installation.config,
        'sbx_a',
        `cd /sys/fs/cgroup
         cat memory/memory.limit_in_bytes memory.max pids/pids.max pids.max 2>/dev/null
         cat cpu/cpu.cfs_quota_us cpu.max 2>/dev/null
         true`,
      );
      const expected = [
        resources.memoryBytes + AGENT_SHARE.memoryBytes,
        resources.pids + AGENT_SHARE.pids,
        cpuQuotaUs(resources.cpu + AGENT_SHARE.cpu),
      ];
      assert.deepEqual(stdout.split(/\s+/).slice(0, 3), expected.map(String));
    });

    for (const [what, files, options] of [
      ['its control groups', '/sys/fs/cgroup/*/cgroup.procs /sys/fs/cgroup/cgroup.procs', sharesKernel],
      ['its agent or the trusted authorities', '/opt/cloche /etc/ssl/certs/ca-certificates.crt', {}],
    ] as const) {
      test(`a sandbox cannot write to ${what}`, options, async () => {
        await hostd.launch('sbx_a', await makeSpec(installation.config));
        const script = `for file in ${files}; do
                          test -e $file && ( echo 1 > $file ) 2>/dev/null && echo wrote $file
                        done; true`;
        assert.equal((await runInside(installation.config, 'sbx_a', script)).stdout, '');
      });
    }

    test('a sandbox has its own files over those of the template', async () => {
      await hostd.launch('sbx_a', await makeSpec(installation.config));
      await hostd.launch('sbx_b', await makeSpec(installation.config));
      const write =
        'echo mine > /etc/mine && rm /etc/debian_version && hostname && stat -c %u:%g /etc/mine /usr/bin/env';
      const { stdout } = await runInside(installation.config, 'sbx_a', write);
      assert.equal(stdout, 'sandbox\n0:0\n0:0\n');
      const read = await runInside(installation.config, 'sbx_b', 'cat /etc/debian_version && ! test -e /etc/mine');
      assert.equal(read.exitCode, 0);
    });

    test('a sandbox that fills its disk gets an error, and its neighbour can still write', async () => {
      const diskBytes = 32 * MEBIBYTE;
      await hostd.launch('sbx_a', await makeSpec(installation.config, { diskBytes }));
      await hostd.launch('sbx_b', await makeSpec(installation.config, { diskBytes }));
      const fill = await runInside(
        installation.config,
        'sbx_a',
        'dd if=/dev/zero of=/var/big bs=1M count=100; stat -c %s /var/big',
      );
      assert.match(fill.stderr, /No space left on device/);
      const written = Number(fill.stdout);
      assert.ok(written > diskBytes * 0.8 && written <= diskBytes, `${written} bytes`);
      const neighbour = await runInside(installation.config, 'sbx_b', 'dd if=/dev/zero of=/var/some bs=1M count=20');
      assert.equal(neighbour.exitCode, 0);
    });

    test('a sandbox that uses up its inodes gets an error', async () => {
      await hostd.launch('sbx_a', await makeSpec(installation.config, { diskBytes: 16 * MEBIBYTE }));
      const { stderr } = await runInside(
        installation.config,
        'sbx_a',
        'mkdir /many; i=0; while [ $i -lt 5000 ]; do : > /many/$i || exit 1; i=$((i+1)); done',
      );
      assert.match(stderr, /No space left on device/);
    });
  });
});

test('two installations on one host see and stop only their own', async () => {
  using one = makeInstallation();
  using other = makeInstallation();
  await using hostdOne = await HostdProcess.start(one);
  await using hostdOther = await HostdProcess.start(other);
  await hostdOne.launch('sbx_same', await makeSpec(one.config, { mode: 'unrestricted' }));
  await hostdOther.launch('sbx_same', await makeSpec(other.config, { mode: 'unrestricted' }));
  const [ofOne, ofOther] = [initPid(one.config, 'sbx_same'), initPid(other.config, 'sbx_same')];
  assert.notEqual(uidOf(ofOne), uidOf(ofOther));

  await hostdOne.stop('sbx_same');
  assert.equal((await hostdOne.stop('sbx_same')).status, 200);
  assert.deepEqual(await hostdOne.list(), []);
  await hostdOne.close();
  assert.deepEqual(hostLeftovers(one.config), []);
  assert.equal((await hostdOther.list()).length, 1);
  assert.ok(existsSync(`/proc/${ofOther}`));

  await hostdOther.stop('sbx_same');
  await hostdOther.close();
  assert.deepEqual(hostLeftovers(other.config), []);
});

function uidOf(pid: number): number {
  return statSync(`/proc/${pid}`).uid;
}
