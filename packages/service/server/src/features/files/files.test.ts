import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type FileEvent, type OrgId, operations, type SandboxId } from '@cloche/contract';
import { AgentError, FileError } from '@cloche/runtime';
import { callOf } from '../../../testing/call.ts';
import { loseLeaseConnecting } from '../../../testing/late-server.ts';
import { openSandboxes, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import { credentialOf } from '../../../testing/seeded-organizations.ts';

let world: SandboxesWorld;
let sandboxId: SandboxId;
beforeEach(async () => {
  world = await openSandboxes();
  sandboxId = await world.createReady();
});
afterEach(() => world[Symbol.asyncDispose]());

const params = () => ({ sandboxId });
const agentFiles = () => world.driver.agentOf(sandboxId).files;
const put = (path: string, content = path) =>
  agentFiles().write(path, { open: () => Readable.from([Buffer.from(content)]) }, {});

describe('the files of a sandbox', () => {
  it('the files of a sandbox are listed as the contract has them', async () => {
    await put('a');
    await put('b/c');
    const { data, hasMore } = await world.call(operations.listFiles, { params: params(), query: { depth: 2 } });
    assert.deepEqual(
      data.map(({ path, type, mode, modifiedAt }) => [path, type, mode, modifiedAt]),
      [
        ['/workspace/a', 'file', '0644', '1970-01-01T00:00:00.000Z'],
        ['/workspace/b', 'directory', '0755', '1970-01-01T00:00:00.000Z'],
        ['/workspace/b/c', 'file', '0644', '1970-01-01T00:00:00.000Z'],
      ],
    );
    assert.equal(hasMore, false);
  });

  it('the files of a sandbox are moved, copied, described and deleted', async () => {
    await put('a', 'text');
    await world.call(operations.copyFile, { params: params(), body: { from: 'a', to: 'b' } });
    await world.call(operations.moveFile, { params: params(), body: { from: 'a', to: 'c' } });
    await world.call(operations.makeDirectory, { params: params(), body: { path: 'd' } });
    await world.call(operations.deleteFile, { params: params(), query: { path: 'b' } });
    const { data } = await world.call(operations.listFiles, { params: params() });
    assert.deepEqual(
      data.map(({ name }) => name),
      ['c', 'd'],
    );
    const { body } = await agentFiles().read('c', {});
    assert.equal(await text(body), 'text');
  });

  it('the files of a sandbox are not moved again by a server that was paused until another one had moved them', async () => {
    await using late = await world.beside('srv_2');
    await put('a', 'first');
    const request = { params: params(), body: { from: 'a', to: 'b', overwrite: true } };
    loseLeaseConnecting(late, async () => {
      await world.call(operations.moveFile, request);
      await put('a', 'second');
    });
    await assert.rejects(late.call(operations.moveFile, request), { code: 'unavailable' });
    for (const [path, content] of [
      ['a', 'second'],
      ['b', 'first'],
    ] as const) {
      assert.equal(await text((await agentFiles().read(path, {})).body), content);
    }
  });

  it('the files of a sandbox are visible to their own organization alone', async () => {
    const credential = credentialOf('org_2' as OrgId);
    const call = world.call(operations.statFile, { params: params(), query: { path: 'a' }, credential });
    await assert.rejects(call, { code: 'not_found', details: { resource: 'sandbox' } });
  });

  it('the files of a sandbox are gone with the sandbox', async () => {
    await world.kill(sandboxId);
    const call = world.call(operations.statFile, { params: params(), query: { path: '.' } });
    await assert.rejects(call, { code: 'sandbox_destroyed' });
  });
});

describe('a watch', () => {
  const watch = async (signal = new AbortController().signal) => {
    const found = world.server.routes.find(({ operation }) => operation.id === 'watchFiles');
    assert.ok(found?.kind === 'stream');
    const call = callOf({ credential: credentialOf(), signal });
    const request = { call, params: params(), query: { path: '.' } };
    return (await found.handle(request as never)) as AsyncIterable<FileEvent>;
  };

  it('a watch tells what the agent tells, and is complete when the directory is gone', async () => {
    const events = await watch();
    agentFiles().tell({ type: 'created', path: '/workspace/a' });
    agentFiles().tell({ type: 'overflow' });
    agentFiles().tell({ type: 'ended' });
    const seen: FileEvent[] = [];
    for await (const event of events) {
      seen.push(event);
      if (event.type === 'complete') break;
    }
    assert.deepEqual(seen, [
      { type: 'created', data: { path: '/workspace/a' } },
      { type: 'overflow', data: {} },
      { type: 'complete', data: {} },
    ]);
  });

  it('a watch is of a directory that exists', async () => {
    agentFiles().watch = () => Promise.reject(new FileError('not_found', 'nothing'));
    await assert.rejects(watch(), { code: 'not_found' });
  });
});

describe('a file operation that the agent refuses', () => {
  const stat = () => world.call(operations.statFile, { params: params(), query: { path: 'a' } });
  const refuseWith = (error: Error) => {
    agentFiles().stat = () => Promise.reject(error);
  };

  it('a file operation that the agent refuses becomes an error of the catalogue', async () => {
    const codes = [
      ['permission_denied', 'permission_denied'],
      ['not_found', 'not_found'],
      ['conflict', 'conflict'],
      ['disk_full', 'disk_full'],
      ['invalid_path', 'invalid_request'],
      ['too_many', 'invalid_request'],
    ] as const;
    for (const [kind, code] of codes) {
      refuseWith(new FileError(kind, 'the reason'));
      await assert.rejects(stat(), { code, message: /the reason/ }, kind);
    }
  });

  it('a file operation that the agent refuses names the file, where the user may not do that', async () => {
    refuseWith(new FileError('permission_denied', 'the reason', { path: '/workspace/a' }));
    await assert.rejects(stat(), { code: 'permission_denied', details: { path: '/workspace/a' } });
  });

  it('a file operation that the agent refuses fails a sandbox whose agent breaks the protocol, and no other', async () => {
    refuseWith(new AgentError('busy', 'much to do'));
    await assert.rejects(stat(), { code: 'unavailable' });
    assert.equal((await world.get(sandboxId)).status, 'ready');
    refuseWith(new AgentError('misbehaved', 'nonsense'));
    await assert.rejects(stat(), { code: 'sandbox_failed' });
    assert.equal((await world.get(sandboxId)).status, 'failed');
  });
});
