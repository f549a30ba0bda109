import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { json, type Script, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

const secret = {
  id: 'sec_1',
  orgId: 'org_1',
  projectId: 'prj_1',
  name: 'pay\u001b[2Jments',
  hosts: ['api.example.com', '*.example.org'],
  createdAt: '2026-01-01T00:00:00.000Z',
  updatedAt: '2026-01-01T00:00:00.000Z',
};
const always: Script = ({ path, method }) =>
  path === '/v1/secrets' && method === 'GET' ? json(200, { data: [secret], hasMore: false }) : json(200, { secret });

async function run(input: string, ...args: string[]) {
  await using server = await startScriptedServer(always);
  const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
  return { ...(await runInProcess(['secret', ...args], { env, input })), requests: server.requests };
}

describe('cloche secret', () => {
  it('cloche secret reads the value of a new secret from standard input, without the newline at its end', async () => {
    const hosts = 'api.example.com,*.example.org';
    const { stdout, requests } = await run(
      'the value \n',
      'create',
      'payments',
      '--hosts',
      hosts,
      '--project',
      'prj_1',
    );
    assert.equal(stdout, 'sec_1\n');
    const body = { name: 'payments', value: 'the value ', hosts: secret.hosts, projectId: 'prj_1' };
    assert.deepEqual(requests[0]?.body, body);
  });

  it('cloche secret takes no value as an argument, and no empty one', async () => {
    for (const args of [
      ['create', 'payments', 'the value', '--hosts', 'a.test'],
      ['update', 'sec_1', '--value', 'the value'],
      ['create', 'payments', '--hosts', 'a.test'],
      ['create', 'payments'],
      ['update', 'sec_1'],
    ]) {
      const { exitCode, requests } = await run('\n', ...args);
      assert.deepEqual([exitCode, requests], [2, []], args.join(' '));
    }
  });

  it('cloche secret lists, shows, changes and deletes secrets, without their control characters', async () => {
    const { stdout } = await run('', 'list');
    assert.match(stdout, /^ID +NAME +HOSTS +UPDATED\nsec_1 +\S+ +api\.example\.com, \*\.example\.org +/);
    const shown = await run('', 'get', 'sec_1');
    assert.match(shown.stdout, /project +prj_1/);
    assert.ok(!`${stdout}${shown.stdout}`.includes('\u001b'));
    const changed = await run('next', 'update', 'sec_1', '--value', '--hosts', 'b.test');
    assert.deepEqual(changed.requests[0]?.body, { value: 'next', hosts: ['b.test'] });
    assert.equal((await run('', 'delete', 'sec_1', 'sec_1')).stderr, 'sec_1 deleted\nsec_1 deleted\n');
  });
});
