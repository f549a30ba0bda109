import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { checkUserNamespaces } from './kernel-checks.ts';

const CHECK = `import { checkUserNamespaces } from '${import.meta.resolve('./kernel-checks.ts')}';
console.log(JSON.stringify(await checkUserNamespaces()));`;
/** What LXC does: each container has an id of its own boot. */
const COVERED = 'mount --bind /dev/null /proc/sys/kernel/random/boot_id; exec "$@"';

test('user namespaces are missing where a part of /proc is covered, as in LXC', async () => {
  assert.equal((await checkUserNamespaces()).status, 'ok');
  const inside = [process.execPath, '--input-type=module', '--eval', CHECK];
  const command = ['--mount', '--propagation', 'private', 'sh', '-euc', COVERED, 'sh', ...inside];
  const { status, remedy } = JSON.parse(execFileSync('unshare', command, { encoding: 'utf8' }));
  assert.equal(status, 'missing');
  assert.match(remedy, /nesting/);
});
