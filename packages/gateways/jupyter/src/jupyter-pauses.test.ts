/** Speaks to the kernel gateway of a whole server on a fake runtime while sandboxes are paused. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { JupyterClient } from '../../../service/server/testing/jupyter-client.ts';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

let tenants: Tenants;
let jupyter: JupyterClient;
before(async () => {
  tenants = await openTenants({ CLOCHE_JUPYTER: 'on' });
  jupyter = new JupyterClient(tenants.server.url, tenants.keys.whole);
});
after(() => tenants.close());

describe('the channels of a kernel whose sandbox is paused', () => {
  const v1 = async (sandboxId: string, method: 'GET' | 'POST', move = '') => {
    const init = method === 'POST' ? { body: {} } : {};
    const { status, body } = await tenants.call(tenants.keys.whole, method, `/v1/sandboxes/${sandboxId}${move}`, init);
    assert.equal(status, 200, JSON.stringify(body));
    return body.sandbox;
  };
  const kernelOf = async (sandboxId: string) =>
    (await jupyter.post('/api/kernels', { name: `python3@${sandboxId}` })).body;

  for (const wake of ['requests', 'traffic']) {
    it(`the channels of a kernel whose sandbox is paused stay open, and a message wakes it: ${wake}`, async () => {
      const sandboxId = await tenants.createSandbox(tenants.keys.whole, { pause: { wake } });
      const kernel = await kernelOf(sandboxId);
      await using channels = await jupyter.open(kernel.id);
      await channels.execute('set kept 41');
      await v1(sandboxId, 'POST', '/pause');
      assert.equal((await channels.ask('kernel_info_request', {}, 'control')).status, 'ok');
      for (const path of ['/api/kernels', `/api/kernels/${kernel.id}`])
        assert.equal((await jupyter.get(path)).status, 200);
      assert.ok((await v1(sandboxId, 'GET')).paused, 'what front ends ask by themselves wakes nothing');
      assert.equal((await channels.execute('get kept')).stdout, '41\n');
      assert.deepEqual((await v1(sandboxId, 'GET')).resumed.by, 'operation');
      assert.equal((await jupyter.get(`/api/kernels/${kernel.id}`)).body.connections, 1);
    });
  }

  it('the channels of a kernel whose sandbox is paused stay open, and show that only a resume wakes it: explicit', async () => {
    const sandboxId = await tenants.createSandbox(tenants.keys.whole, { pause: { wake: 'explicit' } });
    await using channels = await jupyter.open((await kernelOf(sandboxId)).id);
    await channels.execute('set kept 41');
    await v1(sandboxId, 'POST', '/pause');
    const { reply, types } = await channels.execute('get kept');
    assert.deepEqual([reply.status, reply.ename, types.includes('error')], ['error', 'sandbox_paused', true]);
    assert.match(reply.evalue, /resume it/);
    const asked = await channels.ask('complete_request', { code: 'x', cursor_pos: 1 });
    assert.match(`${asked.status} ${asked.evalue}`, /^error .*paused/);
    assert.ok((await v1(sandboxId, 'GET')).paused);
    await v1(sandboxId, 'POST', '/resume');
    assert.equal((await channels.execute('get kept')).stdout, '41\n');
  });
});
