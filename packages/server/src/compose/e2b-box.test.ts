/** What strangers send to a sandbox by E2B's protocol, on a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { constants, gzipSync } from 'node:zlib';
import { openTenants, type Tenants } from '../../testing/tenants.ts';

const BOX = '49983';

let tenants: Tenants;
before(async () => {
  tenants = await openTenants({ CLOCHE_E2B: 'on' });
});
after(() => tenants?.close());

interface Box {
  readonly sandboxId: string;
  readonly token: string;
}

/** Creates a sandbox as E2B's clients do. */
async function createBox(key: string): Promise<Box> {
  const response = await fetch(`${tenants.server.url}/e2b/v2/sandboxes`, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    body: '{"templateID":"base"}',
  });
  const { sandboxID: sandboxId, envdAccessToken: token } = (await response.json()) as Record<string, string>;
  assert.ok(sandboxId && token);
  return { sandboxId, token };
}

function headersOf({ sandboxId, token }: Box, port: string): Record<string, string> {
  return { 'e2b-sandbox-id': sandboxId, 'e2b-sandbox-port': port, 'x-access-token': token };
}

describe('an upload by E2B’s protocol', () => {
  const PATH = '/e2b-box/files?path=/workspace/kept';
  const PLAIN = { 'content-type': 'application/octet-stream' };
  const ZIPPED = { ...PLAIN, 'content-encoding': 'gzip' };
  const FORM = { 'content-type': 'multipart/form-data; boundary=X' };
  const begunForm = '--X\r\ncontent-disposition: form-data; name="file"; filename="/workspace/kept"\r\n\r\nhalf';
  const begunGzip = gzipSync('half', { finishFlush: constants.Z_SYNC_FLUSH });

  let box: Box;
  before(async () => {
    box = await createBox(tenants.keys.whole);
  });

  function upload(headers: Record<string, string>, body: string | Uint8Array<ArrayBuffer>): Promise<Response> {
    return fetch(tenants.server.url + PATH, { method: 'POST', headers: { ...headersOf(box, BOX), ...headers }, body });
  }

  async function content(): Promise<string> {
    return (await fetch(tenants.server.url + PATH, { headers: headersOf(box, BOX) })).text();
  }

  const BROKEN: Readonly<Record<string, readonly [Record<string, string>, string | Uint8Array<ArrayBuffer>]>> = {
    'is no gzip although it says so': [ZIPPED, 'no gzip'],
    'is half a gzip': [ZIPPED, new Uint8Array(begunGzip)],
    'is half a form': [FORM, begunForm],
    'is a form with half a head': [FORM, begunForm.slice(0, 50)],
    'is a form with a head of no form': [FORM, '--X\r\nhalf\r\n--X--\r\n'],
    'is a form without a boundary': [{ 'content-type': 'multipart/form-data' }, begunForm],
    'is an empty form': [FORM, '--X--\r\n'],
  };
  for (const [name, [headers, body]] of Object.entries(BROKEN)) {
    it(`that ${name} is refused, and leaves the file as it was`, async () => {
      assert.equal((await upload(PLAIN, 'as it was')).status, 200);
      const refused = await upload(headers, body);
      assert.equal(refused.status, 400, await refused.text());
      assert.equal(await content(), 'as it was');
      assert.equal((await upload(PLAIN, 'the next one')).status, 200);
      assert.equal(await content(), 'the next one');
    });
  }
});
