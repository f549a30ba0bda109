/** A full volume: requests that are refused early, service that continues, and recovery once there is space. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { type OwnService, testService } from '../support/service.ts';

const MEBIBYTE = 1024 * 1024;
const VOLUME_MB = 768;
const RESERVE_MB = 64;
const DISK_MB = 280;
/** Factor by which sandboxes' disks may exceed the volume. With 2, four disks fit and a fifth does not. */
const OVERCOMMIT = 2;
const LARGE = 'import base64, os; print(base64.b64encode(os.urandom(1 << 20)).decode())';

let folder: string;
let volume: string;
let service: OwnService;

/** Creates a volume for the test: an ext4 in a file. */
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-volume-'));
  volume = join(folder, 'mounted');
  mkdirSync(volume);
  chmodSync(folder, 0o711);
  const image = join(folder, 'image');
  writeFileSync(image, '');
  truncateSync(image, VOLUME_MB * MEBIBYTE);
  execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', image]);
  execFileSync('mount', ['-o', 'loop', image, volume]);
  const settings = {
    CLOCHE_POOL_SIZE: '0',
    CLOCHE_DISK_RESERVE_MB: `${RESERVE_MB}`,
    CLOCHE_DISK_OVERCOMMIT: `${OVERCOMMIT}`,
    CLOCHE_SANDBOX_DEFAULT_DISK_MB: `${DISK_MB}`,
  };
  service = await testService(settings, join(volume, 'data'));
});
after(async () => {
  ballast(0);
  await service?.close();
  // The kernel frees the disks of sandboxes some time after their end, and only then unmounts the volume.
  execFileSync('umount', ['--lazy', volume]);
  rmSync(folder, { recursive: true });
});

function freeBytes(): number {
  const { bavail, bsize } = statfsSync(volume);
  return bavail * bsize;
}

/** Takes space of the volume until this many bytes are free. */
function leaveFree(bytes: number): void {
  ballast(0);
  ballast(freeBytes() - bytes);
}

function ballast(bytes: number): void {
  const file = join(volume, 'ballast');
  rmSync(file, { force: true });
  if (bytes > 0) execFileSync('fallocate', ['-l', `${Math.floor(bytes)}`, file]);
}

/** Takes all space, to the last block. */
function fill(): void {
  leaveFree(8 * MEBIBYTE);
  for (const size of [MEBIBYTE, 4096]) {
    try {
      for (;;) appendFileSync(join(volume, 'ballast'), Buffer.alloc(size));
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC');
    }
  }
}

const write = (id: string, size: number) =>
  fetch(`${service.url}/v1/sandboxes/${id}/files/content?path=f`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/octet-stream' },
    body: 'x'.repeat(size),
  });

describe('the volume of the service', () => {
  it('promises sandboxes so many times what is free, and refuses the next', async () => {
    const made: string[] = [];
    for (let count = 0; count < 4; count += 1) made.push((await service.api.readySandbox()).id);
    const created = await service.api.post('/v1/sandboxes', {});
    const path = `/v1/sandboxes/${created.body.sandbox.id}`;
    const refused = (await service.api.get(`${path}?waitFor=ready&waitMs=30000`)).body.sandbox;
    assert.equal(refused.status, 'failed');
    assert.match(refused.failureReason, /no capacity/);
    // The control: the promised space is used up, not the free space.
    assert.ok(freeBytes() > (DISK_MB + RESERVE_MB) * MEBIBYTE);
    await service.api.delete(`/v1/sandboxes/${made[0]}`);
    await eventually(() => service.api.readySandbox().then(Boolean, () => false));
    for (const { id } of (await service.api.get('/v1/sandboxes')).body.data) {
      await service.api.delete(`/v1/sandboxes/${id}`);
    }
  });

  it('the volume of the service accepts nothing new below its reserve, while existing sandboxes continue', async () => {
    const { id } = await service.api.readySandbox();
    assert.equal((await write(id, 1000)).status, 200);
    leaveFree((RESERVE_MB - 8) * MEBIBYTE);
    const path = `/v1/sandboxes/${id}`;
    const isShort = async () => (await write(id, 1000)).status === 503;
    await eventually(isShort);
    const refused = [
      await service.api.post('/v1/sandboxes', {}),
      await service.api.post(`${path}/artifacts`, { path: 'f' }),
      await service.api.post(`${path}/code/runs`, { code: LARGE, language: 'python' }),
    ];
    for (const { status, body, headers } of refused) {
      assert.deepEqual([status, body.error.code], [503, 'unavailable']);
      assert.match(body.error.message, /disk space/);
      assert.ok(Number(headers.get('retry-after')) > 0);
    }
    assert.equal((await service.api.run(id, '1 + 1')).outputs[0]?.value, '2');
    ballast(0);
    await eventually(async () => !(await isShort()));
    assert.equal((await service.api.post(`${path}/artifacts`, { path: 'f' })).status, 201);
    assert.ok((await service.api.run(id, LARGE)).stdout.length > MEBIBYTE);
    await service.api.delete(path);
  });

  it('the volume of the service that is completely full ends no part of the service, which continues when there is space again', async () => {
    const { id } = await service.api.readySandbox();
    await service.api.run(id, '1');
    const pid = service.pid('server');
    fill();
    const answers = [];
    for (let count = 0; count < 40; count += 1) {
      const code = `"x" * 50_000 + "${count}"`;
      answers.push(await service.api.post(`/v1/sandboxes/${id}/code/runs`, { code, language: 'python' }));
    }
    for (const { status, body } of answers) {
      if (status !== 200) assert.deepEqual([status, body.error.code], [503, 'unavailable'], JSON.stringify(body));
    }
    // The control: the database and its journal could not record all of them.
    assert.ok(answers.some(({ status }) => status === 503));
    assert.equal((await fetch(`${service.url}/healthz`)).status, 200);
    ballast(0);
    await eventually(async () => (await service.api.post('/v1/sandboxes', {})).status === 201);
    const fresh = await service.api.readySandbox();
    assert.equal((await service.api.run(fresh.id, '1 + 1')).outputs[0]?.value, '2');
    assert.equal(service.pid('server'), pid);
  });
});
