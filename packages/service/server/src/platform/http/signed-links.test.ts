import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { after, before, describe, it } from 'node:test';
import type { OrgId } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { startTestService, type TestService } from '../../../testing/test-service.ts';

const ORG = 'org_1' as OrgId;
const PATHS = { GET: '/down', PUT: '/up' };

let service: TestService;
before(async () => {
  service = await startTestService([], {
    signedDownloads: {
      path: PATHS.GET,
      find: async () => ({
        orgId: ORG,
        open: async (signal) => ({ status: 200, headers: {}, body: new Readable({ read() {}, signal }) }),
      }),
    },
    signedUploads: {
      path: PATHS.PUT,
      find: async () => ({ orgId: ORG, receive: (upload, signal) => finished(upload.open().resume(), { signal }) }),
    },
  });
});
after(() => service.close());

describe('a request with a signed link', () => {
  for (const method of ['GET', 'PUT'] as const) {
    it(`a request with a signed link counts among the active requests of its organization until its client leaves: ${method}`, async () => {
      const url = `${service.url}${PATHS[method]}/some_1?expires=1&signature=x`;
      const headers = method === 'PUT' ? { 'content-length': 10 } : {};
      const sent = request(url, { method, agent: false, headers });
      sent.on('error', () => undefined).flushHeaders();
      await eventually(() => service.inFlight.size === 1, { because: 'it is counted' });
      sent.destroy();
      await eventually(() => service.inFlight.size === 0, { because: 'it has ended' });
    });
  }

  it('a request with a signed link is answered, and counts no longer then', async () => {
    const url = `${service.url}${PATHS.PUT}/some_1?expires=1&signature=x`;
    const sent = request(url, { method: 'PUT', agent: false, headers: { 'content-length': 2 } }).end('ab');
    const [response] = await once(sent, 'response');
    assert.equal(response.statusCode, 204);
    await finished(response.resume());
    await eventually(() => service.inFlight.size === 0, { because: 'it has ended' });
  });
});
