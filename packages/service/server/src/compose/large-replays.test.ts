/** Results of servers of one PostgreSQL database that do not share a folder, as on several hosts. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { WholeServers } from '../../testing/whole-servers.ts';
import { openDatabase } from '../platform/db/open-database.ts';

const BYTES = 3_000_000;

describe('a large result', { skip: NEEDS_POSTGRES }, () => {
  it('a large result is replayed by a server that does not have its file, byte by byte', async () => {
    await using servers = await WholeServers.open(2);
    const path = `/v1/sandboxes/${await servers.readySandbox()}/code/runs`;
    const body = { code: `large ${BYTES}`, language: 'python' };
    const run = (server: number) => servers.call(server, 'POST', path, body, 'large');
    const stream = (server: number) => servers.call(server, 'POST', `${path}/stream`, body, 'large stream');

    const [first, streamed] = [await run(0), await stream(0)];
    assert.equal(first.status, 200);
    assert.ok(first.text.length > BYTES);
    // Control: it is too large for the record.
    await using db = await openDatabase(servers.databaseUrl);
    const inRows = db.selectFrom('idempotency_records').select('response_body').where('response_body', 'is not', null);
    for (const row of await inRows.execute()) assert.ok((row.response_body ?? '').length < 100_000);

    for (const server of [0, 1]) {
      const replayed = await run(server);
      assert.equal(replayed.headers.get('idempotency-replayed'), 'true');
      assert.equal(replayed.text, first.text);
      assert.ok(streamed.text.endsWith((await stream(server)).text), 'the event `complete` is the last of the stream');
    }
  });
});

describe('the results of an organization', { skip: NEEDS_POSTGRES }, () => {
  it('the results of an organization that one server keeps for replay count for its quota at the other servers', async () => {
    await using servers = await WholeServers.open(2, { CLOCHE_REPLAY_MAX_MB: '1' });
    const path = `/v1/sandboxes/${await servers.readySandbox()}/code/runs`;
    const body = { code: 'large 200000', language: 'python' };
    const run = async (server: number, key: string) => (await servers.call(server, 'POST', path, body, key)).status;
    // A rejected request leaves no record, so looks do not use up the quota.
    const rejected = { ...body, contextId: 'cctx_none' };
    const look = async () => (await servers.call(1, 'POST', path, rejected, 'look')).status;
    assert.equal(await look(), 404);
    for (let count = 0; count < 6; count += 1) assert.equal(await run(0, `large ${count}`), 200);
    assert.equal(await run(0, 'one more'), 429);
    await eventually(async () => (await look()) === 429, { because: 'the other server counts them', within: 60_000 });
  });
});
