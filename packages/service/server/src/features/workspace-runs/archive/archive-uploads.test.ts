/** Uploads of archives to a whole server, over real sockets. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { ArchiveUploads } from '../../../../testing/archive-uploads.ts';
import { digestOf, EMPTY_TAR, fileAt, makeWorkspace, PACKERS, packWith, tarOf } from '../../../../testing/archives.ts';
import { openTenants, type Tenants } from '../../../../testing/tenants.ts';

const GOOD = tarOf(fileAt('a'), fileAt('b'));
const BAD = tarOf(fileAt('fine'), fileAt('../escaped'));
const STALL_MS = 1_000;

let tenants: Tenants;
let uploads: ArchiveUploads;
let scratch: string;
before(async () => {
  tenants = await openTenants({ CLOCHE_TRANSFER_STALL_MS: String(STALL_MS) });
  uploads = new ArchiveUploads(tenants);
  scratch = mkdtempSync(join(tmpdir(), 'cloche-uploads-'));
});
after(async () => {
  await tenants.close();
  rmSync(scratch, { recursive: true });
});
/** Every test leaves the archives of its runs, and nothing else. */
afterEach(async () => {
  await eventually(() => uploads.stored().arriving.length === 0, { because: 'nothing is left of failed uploads' });
});

const issueOf = ({ body }: { body: { error: { details: { issues: { path: string; message: string }[] } } } }) =>
  body.error.details.issues[0];

describe('an uploaded archive', () => {
  for (const format of Object.keys(PACKERS) as (keyof typeof PACKERS)[]) {
    it(`an uploaded archive of a real program is that of its run, as ${format}`, async () => {
      makeWorkspace(join(scratch, format));
      packWith(format, join(scratch, format), join(scratch, `${format}.packed`));
      const bytes = readFileSync(join(scratch, `${format}.packed`));
      const id = await uploads.createRun();
      const { status, body } = await uploads.upload(id, bytes, { format });
      assert.equal(status, 200, JSON.stringify(body));
      assert.deepEqual(body.workspaceRun.archive, { format, ...digestOf(bytes), entries: 7 });
      assert.equal(body.workspaceRun.status, 'archived');
      assert.deepEqual(await uploads.run(id), body.workspaceRun);
    });
  }

  it('an uploaded archive replaces an earlier one whole, of which nothing is kept', async () => {
    const id = await uploads.createRun();
    const before = uploads.stored().archives;
    await uploads.upload(id, GOOD);
    const [first] = uploads.stored().archives.filter((name) => !before.includes(name));
    const { body } = await uploads.upload(id, EMPTY_TAR);
    assert.deepEqual(body.workspaceRun.archive, { format: 'tar', ...digestOf(EMPTY_TAR), entries: 0 });
    const stored = uploads.stored().archives;
    assert.deepEqual([stored.length, stored.includes(String(first))], [before.length + 1, false]);
  });

  it('an uploaded archive starts a run that starts by itself', async () => {
    const id = await uploads.createRun({ autoStart: true });
    const { body } = await uploads.upload(id, GOOD);
    assert.equal(body.workspaceRun.status, 'queued');
    assert.match(body.workspaceRun.queuedAt, /^\d{4}-/);
    await uploads.call('POST', `/v1/workspace-runs/${id}/cancel`);
  });

  it('an uploaded archive is one of two that arrive at once, and the other leaves nothing', async () => {
    const id = await uploads.createRun();
    const before = uploads.stored().archives.length;
    const answers = await Promise.all([uploads.upload(id, GOOD), uploads.upload(id, EMPTY_TAR)]);
    const { archive } = await uploads.run(id);
    const [accepted, refused] = Array.from(answers).sort((one, other) => one.status - other.status);
    assert.equal(accepted?.status, 200, JSON.stringify(accepted));
    // An upload that begins when the other one is stored replaces it.
    if (refused?.status !== 200) assert.deepEqual([refused?.status, refused?.body.error.code], [409, 'conflict']);
    assert.ok(
      answers.some(({ status, body }) => status === 200 && body.workspaceRun.archive.sha256 === archive.sha256),
    );
    assert.equal(uploads.stored().archives.length, before + 1);
  });

  it('an uploaded archive is answered again for its key, and refused for the key of another one', async () => {
    const id = await uploads.createRun();
    const idempotencyKey = 'once';
    const first = await uploads.upload(id, GOOD, { idempotencyKey });
    await uploads.upload(id, EMPTY_TAR);
    assert.deepEqual(await uploads.upload(id, GOOD, { idempotencyKey }), first);
    assert.equal((await uploads.run(id)).archive.entries, 0);
    const sameLength = Buffer.from(GOOD);
    sameLength.write('C', 512);
    for (const [other, format] of [
      [sameLength, 'tar'],
      [EMPTY_TAR, 'tar'],
      [GOOD, 'zip'],
    ] as const) {
      const { status, body } = await uploads.upload(id, other, { idempotencyKey, format });
      assert.deepEqual([status, body.error.code], [409, 'idempotency_key_reused']);
    }
    const none = await tenants.call(tenants.keys.whole, 'PUT', `/v1/workspace-runs/${id}/archive`, { body: GOOD });
    assert.deepEqual([none.status, issueOf(none)?.path], [400, 'headers.idempotency-key']);
  });
});

describe('an upload is refused, and its run keeps what it had,', () => {
  /** Sends an upload that must be refused to a run that has an archive. */
  async function refused(
    bytes: Buffer,
    uploading: Parameters<ArchiveUploads['upload']>[2],
    code: string,
  ): Promise<Awaited<ReturnType<ArchiveUploads['upload']>>> {
    const id = await uploads.createRun();
    await uploads.upload(id, GOOD);
    const before = uploads.stored();
    const answer = await uploads.upload(id, bytes, uploading);
    assert.equal(answer.body.error?.code, code, JSON.stringify(answer.body));
    assert.deepEqual(uploads.stored(), before);
    assert.equal((await uploads.run(id)).archive.sha256, digestOf(GOOD).sha256);
    return answer;
  }

  it('an upload is refused, and its run keeps what it had, when the judge refuses the archive, whose entry it names', async () => {
    const answer = await refused(BAD, {}, 'invalid_request');
    assert.equal(issueOf(answer)?.path, 'body');
    assert.match(issueOf(answer)?.message ?? '', /^cannot be unpacked: "\.\.\/escaped" leads out/);
  });

  it('an upload is refused, and its run keeps what it had, when its files are larger than the disk of the run', async () => {
    const id = await uploads.createRun({ resources: { diskMb: 256 } });
    const huge = tarOf([{ name: 'huge', size: 257 * 2 ** 20 }]);
    const { status, body } = await uploads.upload(id, huge);
    assert.deepEqual([status, body.error.code], [400, 'invalid_request']);
    assert.match(body.error.message, /"huge" does not fit: .* 268435456 bytes/);
  });

  it('an upload is refused, and its run keeps what it had, when it is of another format than its Content-Type states, or of no format', async () => {
    const answer = await refused(GOOD, { format: 'zip' }, 'invalid_request');
    assert.match(issueOf(answer)?.message ?? '', /it is not a zip/);
    const headers = { 'content-type': 'text/plain' };
    const { status } = await refused(GOOD, { headers }, 'unsupported_media_type');
    assert.equal(status, 415);
    await refused(GOOD, { headers: { 'content-encoding': 'gzip' } }, 'unsupported_media_type');
  });

  it('an upload is refused, and its run keeps what it had, when its Content-Digest differs, or cannot be checked', async () => {
    const digest = (algorithm: string, bytes: Buffer) =>
      `${algorithm}=:${createHash(algorithm.replace('-', '')).update(bytes).digest('base64')}:`;
    const right = digest('sha-256', EMPTY_TAR);
    const wrong = [digest('sha-256', BAD), `${right}, ${digest('sha-512', GOOD)}`, 'sha-256=abc', 'sha-512=:YQ==:', ''];
    for (const header of wrong) {
      const answer = await refused(EMPTY_TAR, { headers: { 'content-digest': header } }, 'invalid_request');
      assert.equal(issueOf(answer)?.path, 'headers.content-digest', header);
    }
    const id = await uploads.createRun();
    for (const header of [
      digest('sha-256', GOOD),
      `${digest('sha-512', GOOD)}, ${digest('sha-256', GOOD)}`,
      'md5=:YQ==:',
    ]) {
      assert.equal((await uploads.upload(id, GOOD, { headers: { 'content-digest': header } })).status, 200, header);
    }
  });

  it('an upload is refused, and its run keeps what it had, when it is empty', async () => {
    const answer = await refused(Buffer.alloc(0), {}, 'invalid_request');
    assert.match(issueOf(answer)?.message ?? '', /it is empty/);
  });

  it('an upload is refused, and its run keeps what it had, when the run was canceled', async () => {
    const id = await uploads.createRun();
    await uploads.call('POST', `/v1/workspace-runs/${id}/cancel`);
    const before = uploads.stored();
    const answers = [
      await uploads.upload(id, GOOD),
      await uploads.createTransfer(id, GOOD),
      await uploads.finalize(id),
    ];
    for (const { status, body } of answers) {
      assert.deepEqual([status, body.error.code, body.error.details], [409, 'conflict', { status: 'canceled' }]);
    }
    assert.deepEqual(uploads.stored(), before);
  });
});

describe('a body', () => {
  const open = (id: string, headers: Record<string, string | number>, { server, keys } = tenants) =>
    request(`${server.url}/v1/workspace-runs/${id}/archive`, {
      method: 'PUT',
      agent: false,
      headers: {
        authorization: `Bearer ${keys.whole}`,
        'content-type': 'application/x-tar',
        'idempotency-key': 'k',
        ...headers,
      },
    });

  it('over 100 MiB is refused: at once when it says so, and else as it arrives', async () => {
    const id = await uploads.createRun();
    const announced = open(id, { 'content-length': LIMITS.workspaceArchiveBytes + 1 });
    announced.flushHeaders();
    const [early] = await once(announced, 'response');
    assert.equal(early.statusCode, 413);
    announced.destroy();

    const chunked = open(id, {});
    chunked.on('error', () => undefined);
    const answered = once(chunked, 'response');
    const chunk = Buffer.alloc(2 ** 20);
    for (let sent = 0; sent <= LIMITS.workspaceArchiveBytes && !chunked.destroyed; sent += chunk.length) {
      if (!chunked.write(chunk)) await Promise.race([once(chunked, 'drain'), answered]);
    }
    const [late] = await answered;
    assert.equal(late.statusCode, 413);
    chunked.destroy();
  });

  it('a body that vanishes half way leaves nothing', async () => {
    const id = await uploads.createRun();
    const gone = open(id, { 'content-length': GOOD.length });
    gone.on('error', () => undefined);
    gone.write(GOOD.subarray(0, 600));
    await eventually(() => uploads.stored().arriving.length === 1, { because: 'the body is arriving' });
    gone.destroy();
    await eventually(() => uploads.stored().arriving.length === 0, { because: 'the rest is removed' });
    assert.equal((await uploads.run(id)).status, 'awaiting_archive');
    assert.equal((await uploads.upload(id, GOOD, { idempotencyKey: 'k' })).status, 200);
  });

  it('a body that arrives slowly does not replace an archive that was uploaded meanwhile', async () => {
    const patient = await openTenants();
    try {
      const server = new ArchiveUploads(patient);
      const id = await server.createRun();
      await server.upload(id, EMPTY_TAR);
      const slow = open(id, { 'content-length': GOOD.length }, patient);
      slow.write(GOOD.subarray(0, 600));
      await eventually(() => server.stored().arriving.length === 1, { because: 'the body is arriving' });
      const later = tarOf(fileAt('later'));
      assert.equal((await server.upload(id, later)).status, 200);
      slow.end(GOOD.subarray(600));
      const [{ statusCode }] = await once(slow, 'response');
      assert.equal(statusCode, 409);
      assert.equal((await server.run(id)).archive.sha256, digestOf(later).sha256);
      assert.equal(server.stored().archives.length, 1);
    } finally {
      await patient.close();
    }
  });

  it('a body that stalls is given up', { timeout: 30 * STALL_MS }, async () => {
    const id = await uploads.createRun();
    const stalled = open(id, { 'content-length': GOOD.length });
    const closed = new Promise((resolve) => stalled.once('close', resolve));
    stalled.on('error', () => undefined);
    stalled.write(GOOD.subarray(0, 600));
    await closed;
    await eventually(() => uploads.stored().arriving.length === 0, { because: 'the rest is removed' });
    assert.equal((await uploads.run(id)).status, 'awaiting_archive');
  });
});

it('archives of an organization have together at most the size of the setting', async () => {
  const small = await openTenants({ CLOCHE_WORKSPACE_ARCHIVES_MAX_MB: '1' });
  try {
    const limited = new ArchiveUploads(small);
    const half = tarOf([{ name: 'a' }, 'x'.repeat(700_000)]);
    assert.equal((await limited.upload(await limited.createRun(), half)).status, 200);
    const { status, body } = await limited.upload(await limited.createRun(), half);
    assert.deepEqual([status, body.error.code, body.error.details.limit], [429, 'quota_exceeded', 2 ** 20]);
    assert.equal((await limited.upload(await limited.createRun(), GOOD)).status, 200);
  } finally {
    await small.close();
  }
});
