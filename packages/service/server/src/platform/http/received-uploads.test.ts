import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { operations } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { startTestService, type TestService } from '../../../testing/test-service.ts';
import { receivedUploadRoute } from './route.ts';

let service: TestService;
before(async () => {
  service = await startTestService([
    receivedUploadRoute(
      operations.uploadWorkspaceArchive,
      async ({ upload }) => ({
        fingerprint: (await upload.open().toArray()).join(''),
        async [Symbol.asyncDispose]() {
          throw new Error('the folder is read-only');
        },
      }),
      async () => ({ workspaceRun: {} as never }),
    ),
  ]);
});
after(() => service.close());

describe('a received body that cannot be removed', () => {
  it('neither fails its request nor keeps its place among the active ones', async () => {
    const headers = { 'content-type': 'application/x-tar' };
    const path = '/v1/workspace-runs/wrun_1/archive';
    const answer = await service.call('PUT', path, { body: 'bytes', headers, idempotencyKey: 'k' });
    assert.equal(answer.status, 200);
    await eventually(() => service.inFlight.size === 0, { because: 'the request has left' });
    assert.ok(service.lines.some(({ msg }) => msg === 'a received body is not removed'));
  });
});
