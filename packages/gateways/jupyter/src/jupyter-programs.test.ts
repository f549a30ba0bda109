/**
 * Programs of others on a whole server with a fake runtime, from their first request to the last. jupyter_server 2.21.1
 * answers the same requests with the same statuses, messages and outputs, but for those that say so.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { JUPYTER_PROGRAMS, type JupyterSite } from '../../../service/server/testing/jupyter-programs.ts';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

let tenants: Tenants;
let site: JupyterSite;
before(async () => {
  tenants = await openTenants({ CLOCHE_JUPYTER: 'on' });
  const url = `${tenants.server.url}/jupyter/`;
  site = { url, token: tenants.keys.whole, cell: 'print out\nvalue 42', failing: 'fail NameError x is not defined' };
});
after(() => tenants?.close());

const WORKED = ['stdout out\n', 'value 42'];
const FAILED = 'error NameError';
const SEEN: Readonly<Record<keyof typeof JUPYTER_PROGRAMS, readonly string[]>> = {
  openWebUi: [
    'POST api/kernels 201',
    ...WORKED,
    'DELETE api/kernels/ID 204',
    'POST api/kernels 201',
    FAILED,
    'DELETE api/kernels/ID 204',
  ],
  autoGen: [
    'GET api/kernelspecs 200',
    'POST api/kernels 201',
    'ready',
    ...WORKED,
    FAILED,
    'POST api/kernels/ID/restart 200',
    'ready',
    'GET api/kernels 200',
    'DELETE api/kernels/ID 204',
  ],
  vsCode: [
    // Jupyter's server answers 404 to both. The program takes all but 200 for a server without a hub, which wants a token.
    'GET hub/api 401',
    'GET tree 401',
    'GET api/kernels 200',
    'GET api/kernelspecs 200',
    'GET api/sessions 200',
    // Jupyter's server has files, and answers 201.
    'POST api/contents 404',
    'POST api/sessions 201',
    'WebSocket of v1.kernel.websocket.jupyter.org',
    ...WORKED,
    FAILED,
    'POST api/kernels/ID/interrupt 204',
    'GET api/kernels/ID 200',
    'PATCH api/sessions/ID 200',
    'POST api/kernels/ID/restart 200',
    'DELETE api/sessions/ID 204',
    'GET api/sessions/ID 404',
  ],
};

describe('all calls of', () => {
  for (const [name, program] of Object.entries(JUPYTER_PROGRAMS)) {
    it(`${name} are answered, and leave no kernel`, { timeout: 60_000 }, async () => {
      assert.deepEqual(await program(site), SEEN[name as keyof typeof JUPYTER_PROGRAMS]);
      const headers = { authorization: `token ${site.token}` };
      assert.deepEqual(await (await fetch(`${site.url}api/kernels`, { headers })).json(), []);
    });
  }
});
