/** Two servers of one SQLite file, which only the lock on the file prevents. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { WholeServers } from '../../testing/whole-servers.ts';
import { lockSqliteFile } from '../platform/db/sqlite-file-lock.ts';

const EQUAL = 30;
/** About every second round shows it: each server has to claim the request before it sees the claim of the other. */
const MOST_ROUNDS = 50;

it('two servers that use one SQLite file without its lock execute a request twice: the control', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-shared-file-'));
  using removed = new DisposableStack();
  removed.defer(() => rmSync(folder, { recursive: true }));
  const url = `sqlite:${join(folder, 'cloche.db')}`;
  // The process of a server takes the lock before it starts the server, as `main.test.ts` tests. Here nothing does.
  await using servers = await WholeServers.openFor(url, 2);
  const sandboxId = await servers.readySandbox();
  const path = `/v1/sandboxes/${sandboxId}/code/runs`;
  const body = { code: 'print x', language: 'python' };
  // Makes the default context, which both servers then use.
  await servers.call(0, 'POST', path, body, 'first');
  let executions = 0;
  servers.driver.agentOf(sandboxId).onExecution = () => {
    executions += 1;
  };
  for (let round = 0; executions <= 1 && round < MOST_ROUNDS; round += 1) {
    executions = 0;
    const send = (_: unknown, server: number) => servers.call(server, 'POST', path, body, `equal ${round}`);
    await Promise.all(Array.from({ length: EQUAL }, send));
  }
  assert.equal(executions, 2);

  assert.equal(lockSqliteFile(url), undefined);
  assert.match(lockSqliteFile(url) ?? '', /^another server, process \d+, uses the database/);
});
