import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { runInside } from '../../testing/inside.ts';
import { makeInstallation, makeSpec } from '../../testing/installation.ts';
import type { HostdConfig } from '../host/config.ts';

const FILE = '/proc/sys/kernel/random/boot_id';
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\n$/;

/** What root of a sandbox tries, with the rights of its first process. Each succeeds with a file of its own. */
const ATTEMPTS = [
  'echo forged > FILE',
  'echo forged >> FILE',
  'truncate --size 0 FILE',
  'chmod 666 FILE',
  'chown 1000 FILE',
  'touch --date 2020-01-01 FILE',
  'rm --force FILE',
  'mv FILE FILE.old',
  'ln FILE FILE.link',
  'cp --force /etc/hostname FILE',
  'sed --in-place s/^/forged/ FILE',
  'dd if=/dev/zero of=FILE bs=1 count=1 conv=notrunc',
  // To a new file, since a mount over itself would let the next ones succeed.
  'umount FILE || mount --bind /etc/hostname FILE',
];

/** Tries each, and writes the numbers of those that succeeded. The sandbox then stays. */
function trying(file: string, attempts: readonly string[]): string {
  const lines = attempts.map((attempt, index) => `( ${attempt.replaceAll('FILE', file)} ) && echo ${index}`);
  return `for i in 1; do ${lines.join('; ')}; done > /result 2> /errors; mv /result /succeeded; exec sleep infinity`;
}

const isTried = (config: HostdConfig, sandboxId: string) =>
  eventually(async () => (await runInside(config, sandboxId, 'test -e /succeeded')).exitCode === 0, {
    because: 'everything was tried',
  });

/**
 * Launches two sandboxes in which root tries to change the id, and one of the first's name after its end.
 * @returns the id that each reads, and the numbers of the attempts that succeeded
 */
async function readIds(ociRuntime: string): Promise<{ ids: string[]; succeeded: string }> {
  using installation = makeInstallation({ CLOCHE_OCI_RUNTIME: ociRuntime });
  const { config } = installation;
  await using hostd = await HostdProcess.start(installation, ['/bin/bash', '-c', trying(FILE, ATTEMPTS)]);
  const spec = await makeSpec(config);
  const read = async (id: string) => (await runInside(config, id, `cat ${FILE}`)).stdout;
  const ids: string[] = [];
  let succeeded = '';
  for (const id of ['sbx_a', 'sbx_b']) {
    assert.equal((await hostd.launch(id, spec)).status, 200);
    await isTried(config, id);
    succeeded += (await runInside(config, id, 'cat /succeeded')).stdout;
    ids.push(await read(id));
  }
  assert.equal(await read('sbx_a'), ids[0], 'it stays, unlike that of `random/uuid`');
  for (const id of ['sbx_a', 'sbx_b']) await hostd.stop(id);
  await hostd.launch('sbx_a', spec);
  return { ids: [...ids, await read('sbx_a')], succeeded };
}

describe('the id of the boot in a sandbox', () => {
  test('the id of the boot in a sandbox is its own with crun, and its root cannot change it', async () => {
    const { ids, succeeded } = await readIds('crun');
    assert.equal(succeeded, '');
    for (const id of ids) assert.match(id, UUID);
    assert.equal(new Set([...ids, readFileSync(FILE, 'utf8')]).size, 4);
  });

  test('the id of the boot in a sandbox is hidden with runc, and its root cannot change that', async () => {
    // The file is the null device, which takes what is written to it.
    assert.deepEqual((await readIds('runc')).ids, ['', '', '']);
  });
});

test('what is tried on the id of the boot succeeds on an ordinary file of root', async () => {
  using installation = makeInstallation();
  const { config } = installation;
  const attempts = ATTEMPTS.slice(0, -1).map((attempt) => `echo x > /tmp/file; ${attempt}`);
  await using hostd = await HostdProcess.start(installation, ['/bin/bash', '-c', trying('/tmp/file', attempts)]);
  await hostd.launch('sbx_a', await makeSpec(config));
  await isTried(config, 'sbx_a');
  const { stdout } = await runInside(config, 'sbx_a', 'cat /succeeded');
  assert.deepEqual(stdout.trim().split('\n').map(Number), [...attempts.keys()]);
});
