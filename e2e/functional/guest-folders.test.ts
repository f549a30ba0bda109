/** Whether the folder that is mounted into a sandbox is found, so that nothing removes it. */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, before, it } from 'node:test';
import { cachePaths } from '@cloche/layout';
import { buildGuest } from '../../packages/guest/agent/src/guest/build-guest.ts';
import { CACHE_DIR } from '../../packages/guest/agent/testing/test-cache.ts';
import { mountedGuests } from '../../packages/host/host-checks/src/mounted-guests.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

it('the guest folder of a live sandbox is found among all those of the host', async () => {
  await service.api.readySandbox();
  const { guestDir, digest } = await buildGuest({ cacheDir: CACHE_DIR });
  const parent = cachePaths(CACHE_DIR).guestDir;
  const folders = readdirSync(parent).map((name) => join(parent, name));
  assert.ok(folders.includes(guestDir));
  const { mounted, hasHidden } = await mountedGuests(folders);
  const isFound = [...mounted].some((folder) => basename(folder) === digest);
  assert.ok(isFound || (hasHidden && process.env.CLOCHE_OCI_RUNTIME === 'runsc'), [...mounted].join());
});
