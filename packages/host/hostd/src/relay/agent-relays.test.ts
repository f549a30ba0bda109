import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { needsRoot } from '@cloche/testkit/needs-root';
import { instanceKey } from '../instance/instance-key.ts';
import { AgentRelays, DIAL_SOCKET } from './agent-relays.ts';

const KEY = instanceKey({ sandboxId: 'sbx_a', generation: 1 });
const IDS = { base: 0x1000_0000, size: 65_536, owner: 1_342_177_280 };

test('the next hostd serves at the same paths, each accessible to its own side only', { skip: needsRoot }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'relays-'));
  const options = { dialsDir: join(folder, 'dials'), socketsDir: folder, service: { uid: 65_534, gid: 65_534 } };
  mkdirSync(join(folder, KEY));
  const [outside, inside] = [join(folder, KEY, 'agent.sock'), join(folder, 'dials', KEY, DIAL_SOCKET)];
  const first = new AgentRelays(options);
  first.open(KEY, IDS);
  const { ino } = statSync(first.folderOf(KEY));
  first.closeAll();
  await assert.rejects(once(connect(inside), 'connect'), { code: 'ECONNREFUSED' });

  const next = new AgentRelays(options);
  try {
    next.open(KEY, IDS);
    assert.equal(statSync(next.folderOf(KEY)).ino, ino, 'the folder that the guest has is still the one');
    const owners = [outside, inside].map((path) => [statSync(path).uid, statSync(path).mode & 0o777]);
    assert.deepEqual(owners, [
      [65_534, 0o600],
      [IDS.base, 0o600],
    ]);
    const server = connect(outside);
    connect(inside)
      .on('error', () => {})
      .write('served');
    const [bytes] = await once(server, 'data');
    assert.equal(String(bytes), 'served');
  } finally {
    next.remove(KEY);
    assert.equal(existsSync(next.folderOf(KEY)), false);
    rmSync(folder, { recursive: true });
  }
});
