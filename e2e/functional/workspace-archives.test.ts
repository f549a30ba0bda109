/** Archives of workspace runs, from real programs to the workspace of a real sandbox. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { WORKSPACE_ARCHIVE_TYPES, type WorkspaceArchiveFormat } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { lentService } from '../support/lent-service.ts';
import { type LentService, TAKEN_OVER_MS } from '../support/service.ts';

const PACKERS: Readonly<Record<WorkspaceArchiveFormat, string>> = {
  tar: 'tar -cf "$1" *',
  'tar.gz': 'tar -czf "$1" *',
  'tar.zst': 'tar -cf - * | zstd -q -o "$1"',
  zip: 'zip -qry "$1" .',
};

let service: LentService;
let scratch: string;
before(async () => {
  service = await lentService();
  scratch = mkdtempSync(join(tmpdir(), 'cloche-workspace-'));
  mkdirSync(join(scratch, 'workspace/src'), { recursive: true });
  writeFileSync(join(scratch, 'workspace/src/program'), '#!/bin/sh\necho it runs\n', { mode: 0o755 });
  writeFileSync(join(scratch, 'workspace/größe'), 'x'.repeat(100_000));
  symlinkSync('src/program', join(scratch, 'workspace/link'));
});
after(async () => {
  await service?.close();
  rmSync(scratch, { recursive: true });
});

function pack(format: WorkspaceArchiveFormat): Buffer<ArrayBuffer> {
  const archive = join(scratch, `packed.${format}`);
  if (!existsSync(archive))
    execFileSync('sh', ['-c', PACKERS[format], 'sh', archive], { cwd: join(scratch, 'workspace') });
  return readFileSync(archive) as Buffer<ArrayBuffer>;
}

async function createRun(body: object): Promise<string> {
  const created = await service.api.post('/v1/workspace-runs', body);
  assert.equal(created.status, 201, JSON.stringify(created.body));
  return created.body.workspaceRun.id;
}

const archiveUrl = (id: string) => `${service.url}/v1/workspace-runs/${id}/archive`;
const headersOf = (format: WorkspaceArchiveFormat) => ({
  authorization: `Bearer ${service.apiKey}`,
  'content-type': WORKSPACE_ARCHIVE_TYPES[format],
  'idempotency-key': randomUUID(),
});

async function upload(id: string, format: WorkspaceArchiveFormat): Promise<void> {
  const answer = await fetch(archiveUrl(id), { method: 'PUT', headers: headersOf(format), body: pack(format) });
  assert.equal(answer.status, 200, await answer.text());
}

async function finished(id: string) {
  const { body } = await service.api.get(`/v1/workspace-runs/${id}?waitFor=finished&waitMs=60000`);
  return body.workspaceRun;
}

/** Names of the files that the server has stored, of archives and of uploads that are arriving. */
function stored(): { archives: string[]; arriving: string[] } {
  const folder = join(service.dataDir, 'server/artifacts');
  const names = (path: string) => (existsSync(path) ? readdirSync(path) : []);
  const groups = names(join(folder, 'archives'));
  return {
    archives: groups.flatMap((group) => names(join(folder, 'archives', group))),
    arriving: names(join(folder, 'staging')),
  };
}

const COMMAND = 'set -e; ./link; wc -c < größe; stat -c %a src/program; readlink link; ls -A | wc -l';

describe('an uploaded archive is in the workspace of its run', () => {
  for (const format of Object.keys(PACKERS) as WorkspaceArchiveFormat[]) {
    it(`as ${format}`, async () => {
      const id = await createRun({ command: COMMAND, autoStart: true });
      await upload(id, format);
      const run = await finished(id);
      const { data } = (await service.api.get(`/v1/workspace-runs/${id}/events?limit=1000`)).body;
      const output = data.flatMap(({ type, data: text }: { type: string; data: string }) =>
        type === 'stdout' ? [text] : [],
      );
      assert.deepEqual([run.status, run.exitCode], ['succeeded', 0], JSON.stringify(data));
      assert.equal(output.join(''), 'it runs\n100000\n755\nsrc/program\n3\n');
    });
  }

  it('an uploaded archive is in the workspace of its run by a signed URL', async () => {
    const id = await createRun({ command: COMMAND });
    const bytes = pack('tar.zst');
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const body = { sizeBytes: bytes.length, sha256, format: 'tar.zst' };
    const { transfer } = (await service.api.post(`/v1/workspace-runs/${id}/archive-transfer`, body)).body;
    const sent = await fetch(transfer.url, { method: transfer.method, headers: transfer.headers, body: bytes });
    assert.ok(sent.ok, await sent.text());
    assert.equal((await service.api.post(`/v1/workspace-runs/${id}/archive/finalize`)).status, 200);
    assert.equal((await service.api.post(`/v1/workspace-runs/${id}/start`)).status, 200);
    assert.equal((await finished(id)).status, 'succeeded');
    const late = await fetch(archiveUrl(id), { method: 'PUT', headers: headersOf('tar.zst'), body: bytes });
    const { error } = (await late.json()) as { error: { code: string; details: unknown } };
    assert.deepEqual([late.status, error.code, error.details], [409, 'conflict', { status: 'succeeded' }]);
  });
});

it('an upload whose server is killed with -9 leaves nothing, and the archive before it is kept', async () => {
  const id = await createRun({ command: COMMAND });
  await upload(id, 'tar');
  const before = stored().archives;
  const headers = { ...headersOf('tar'), 'content-length': String(pack('tar').length) };
  const sent = request(archiveUrl(id), { method: 'PUT', agent: false, headers });
  sent.on('error', () => undefined);
  sent.write(pack('tar').subarray(0, 50_000));
  await eventually(() => stored().arriving.length === 1);
  await service.kill('server');
  await service.restart('server');
  await eventually(() => stored().arriving.length === 0, { within: TAKEN_OVER_MS });
  assert.deepEqual(stored().archives, before);
  assert.equal((await service.api.get(`/v1/workspace-runs/${id}`)).body.workspaceRun.status, 'archived');
  assert.equal((await service.api.post(`/v1/workspace-runs/${id}/start`)).status, 200);
  assert.equal((await finished(id)).status, 'succeeded');
});
