import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { runInside } from '../../testing/inside.ts';
import { makeInstallation, makeSpec } from '../../testing/installation.ts';
import { ok, sandboxOf } from '../../testing/kept-sandbox.ts';
import { hostLeftovers } from '../../testing/leftovers.ts';

const UNIT = new URL('../../../../../deploy/systemd/cloche-hostd.service', import.meta.url);

test('hostd launches and stops with the capabilities that its systemd unit leaves it', async () => {
  const listed = /^CapabilityBoundingSet=(.+)$/m.exec(readFileSync(UNIT, 'utf8'))?.[1]?.split(' ') ?? [];
  assert.ok(listed.length > 0);
  const bounding = ['-all', ...listed.map((name) => `+${name.replace('CAP_', '').toLowerCase()}`)].join(',');
  const confinement = ['setpriv', '--no-new-privs', '--bounding-set', bounding, '--inh-caps=-all', '--'];
  const installation = makeInstallation();
  const hostd = await HostdProcess.start(installation, undefined, confinement);
  const ofHostd = readFileSync(`/proc/${hostd.pid}/status`, 'utf8');
  assert.notEqual(
    /^CapBnd:\s*(\w+)/m.exec(ofHostd)?.[1],
    /^CapBnd:\s*(\w+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1],
  );
  for (const mode of ['unrestricted', 'deny-all'] as const) {
    const { status, body } = await hostd.launch(
      `sbx_${mode.slice(0, 4)}`,
      await makeSpec(installation.config, { mode }),
    );
    assert.equal(status, 200, JSON.stringify(body));
  }
  assert.equal((await runInside(installation.config, 'sbx_unre', 'echo works')).stdout.trim(), 'works');
  // A disk that outlives its instance is named, checked because hostd did not unmount it, and gets other owners.
  const sandbox = sandboxOf(installation, 'sbx_deny');
  await sandbox.inside('echo kept > /opt/file');
  ok(await sandbox.keep(hostd, 1));
  ok(await sandbox.stop(hostd, 1));
  ok(await sandbox.launch(hostd, 2, 1));
  assert.equal(await sandbox.inside('cat /opt/file'), 'kept\n');
  ok(await sandbox.park(hostd, 2));
  for (const { sandboxId } of await hostd.list()) assert.equal((await hostd.stop(sandboxId)).status, 200);
  await hostd.close();
  assert.deepEqual(hostLeftovers(installation.config), []);
  installation[Symbol.dispose]();
});
