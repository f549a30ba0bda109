import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { globSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import type { Artifact } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { openPreviewWorld, type PreviewWorld } from '../../../testing/previews.ts';
import { DATABASE_KIND } from '../../../testing/test-database.ts';

let world: PreviewWorld;
let keys = 0;
before(async () => {
  world = await openPreviewWorld();
});
after(() => world.close());

async function write(path: string, content: string | Buffer): Promise<void> {
  const signal = AbortSignal.timeout(60_000);
  await world.agent.client().files.write(path, { open: () => Readable.from([Buffer.from(content)]) }, {}, signal);
}

const exported = (body: unknown, key = `key-${++keys}`, sandboxId = world.sandboxId) =>
  world.call('POST', `/v1/sandboxes/${sandboxId}/artifacts`, body, key);

async function keep(path: string, content: string | Buffer, more: Record<string, unknown> = {}): Promise<Artifact> {
  await write(path, content);
  const answer = await exported({ path, ...more });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  return answer.body.artifact;
}

function download(id: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Response> {
  const authorization = `Bearer ${world.key}`;
  return fetch(`${world.server.url}/v1/artifacts/${id}/content`, { method, headers: { authorization, ...headers } });
}

const contents = () => globSync(join(world.folder, 'data/server/artifacts/contents/*/*'));
const staged = () => globSync(join(world.folder, 'data/server/artifacts/staging/*'));

describe('an artifact', () => {
  it('an artifact is what the file was, with its digest, name and type', async () => {
    const artifact = await keep('/workspace/out/report.csv', 'a,b\n1,2\n', { metadata: { kind: 'report' } });
    assert.equal(artifact.sha256, createHash('sha256').update('a,b\n1,2\n').digest('hex'));
    assert.deepEqual(
      [artifact.name, artifact.contentType, artifact.sizeBytes, artifact.path, artifact.metadata],
      ['report.csv', 'text/csv', 8, '/workspace/out/report.csv', { kind: 'report' }],
    );
    assert.equal(await (await download(artifact.id)).text(), 'a,b\n1,2\n');
    const named = await keep('x', '', { name: 'Übersicht "1".bin', contentType: 'text/plain; charset=utf-8' });
    const headers = (await download(named.id)).headers;
    assert.equal(
      headers.get('content-disposition'),
      `attachment; filename="_bersicht _1_.bin"; filename*=UTF-8''%C3%9Cbersicht%20%221%22.bin`,
    );
    assert.equal(headers.get('content-type'), 'text/plain; charset=utf-8');
    assert.deepEqual(staged(), []);
  });

  it('an artifact is an archive of a directory', async () => {
    await write('/workspace/site/index.html', 'hello');
    const { artifact } = (await exported({ path: 'site/' })).body;
    assert.deepEqual([artifact.name, artifact.contentType], ['site.tar.gz', 'application/gzip']);
    assert.match(await (await download(artifact.id)).text(), /index\.html/);
  });

  it('an artifact has the name of its file, which may be any name', async () => {
    const long = `${'n'.repeat(251)}.csv`;
    const names: [path: string, name: string][] = [
      [`/workspace/${long}`, long],
      ['new\nline', 'new_line'],
      ['file:///workspace/with%20space%2Fand%20%25.txt', 'and %.txt'],
      ['file:///workspace/%FF%FE', '\ufffd\ufffd'],
      ['100%41', '100%41'],
    ];
    for (const [path, name] of names) {
      const artifact = await keep(path, 'x');
      assert.equal(artifact.name, name);
      assert.equal(await (await download(artifact.id)).text(), 'x');
    }
    await write(`${'d'.repeat(255)}/file`, 'x');
    const { artifact } = (await exported({ path: 'd'.repeat(255) })).body;
    assert.equal(artifact.name, `${'d'.repeat(248)}.tar.gz`);
  });

  it('an artifact is refused for a missing file, an invalid path, or an invalid name', async () => {
    assert.equal((await exported({ path: '/workspace/none' })).body.error.code, 'not_found');
    for (const body of [{}, { path: '' }, { path: 'x', name: '../x' }, { path: 'x', name: 'a\nb' }, { path: 7 }]) {
      assert.equal((await exported(body)).body.error.code, 'invalid_request', JSON.stringify(body));
    }
    const header = await exported({ path: 'x', contentType: 'text/html\r\nx: y' });
    assert.match(header.body.error.message, /^body\.contentType /);
    assert.equal((await world.call('POST', `/v1/sandboxes/${world.sandboxId}/artifacts`, { path: 'x' })).status, 400);
  });

  it('an artifact is one for one Idempotency-Key', async () => {
    await write('once', 'once');
    const [one, other] = [await exported({ path: 'once' }, 'the same'), await exported({ path: 'once' }, 'the same')];
    assert.deepEqual(other.body, one.body);
  });

  it('an artifact is listed by sandbox, name and label, until it is deleted', async () => {
    const artifact = await keep('listed.txt', 'listed', { metadata: { team: 'blue' } });
    const found = async (query: string) =>
      (await world.call('GET', `/v1/artifacts?${query}`)).body.data.map(({ id }: Artifact) => id);
    for (const query of ['name=listed.txt', 'metadata.team=blue', `name=listed.txt&sandboxId=${world.sandboxId}`]) {
      assert.deepEqual(await found(query), [artifact.id], query);
    }
    assert.deepEqual(await found('name=listed.txt&metadata.team=red'), []);
    assert.deepEqual(await found('name=listed.txt&sandboxId=sbx_other'), []);
    const deleted = await world.call('DELETE', `/v1/artifacts/${artifact.id}`);
    assert.ok(deleted.body.artifact.deletedAt);
    assert.deepEqual((await world.call('DELETE', `/v1/artifacts/${artifact.id}`)).body, deleted.body);
    assert.deepEqual(await found('name=listed.txt'), []);
    for (const path of ['', '/content']) {
      assert.equal((await world.call('GET', `/v1/artifacts/${artifact.id}${path}`)).body.error.code, 'not_found');
    }
  });

  it('an artifact shares its content with equal artifacts; deleting the last one frees the space', async () => {
    const [one, other] = [await keep('twin1', 'twins'), await keep('twin2', 'twins')];
    assert.notEqual(one.id, other.id);
    // Counts these alone: contents of earlier tests are removed after the answer.
    const twins = () => contents().filter((path) => path.endsWith(one.sha256));
    assert.equal(twins().length, 1);
    await world.call('DELETE', `/v1/artifacts/${one.id}`);
    assert.equal(await (await download(other.id)).text(), 'twins');
    await world.call('DELETE', `/v1/artifacts/${other.id}`);
    await eventually(() => twins().length === 0, { because: 'the content is removed after the answer' });
    assert.equal(await (await download((await keep('twin3', 'twins')).id)).text(), 'twins');
  });

  it('an artifact is not lost while artifacts with equal contents are created and deleted', async () => {
    await write('busy', 'busy');
    const all = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const { id } = (await exported({ path: 'busy' })).body.artifact;
        if (index % 2 === 0) await world.call('DELETE', `/v1/artifacts/${id}`);
        return id;
      }),
    );
    for (const id of all.filter((_, index) => index % 2 === 1)) assert.equal(await (await download(id)).text(), 'busy');
  });

  it('an artifact is downloaded in ranges, and not at all when its client has it', async () => {
    const { id, sha256 } = await keep('digits', '0123456789');
    const etag = `"${sha256}"`;
    const range = async (text: string, more = {}) => {
      const response = await download(id, { range: text, ...more });
      return [response.status, response.headers.get('content-range'), await response.text()];
    };
    assert.deepEqual(await range('bytes=2-4'), [206, 'bytes 2-4/10', '234']);
    assert.deepEqual(await range('bytes=8-'), [206, 'bytes 8-9/10', '89']);
    assert.deepEqual(await range('bytes=-3'), [206, 'bytes 7-9/10', '789']);
    assert.deepEqual(await range('bytes=5-99'), [206, 'bytes 5-9/10', '56789']);
    assert.deepEqual(await range('bytes=2-4', { 'if-range': etag }), [206, 'bytes 2-4/10', '234']);
    assert.deepEqual(await range('bytes=2-4', { 'if-range': '"other"' }), [200, null, '0123456789']);
    assert.deepEqual(await range('bytes=0-1,4-5'), [200, null, '0123456789']);
    assert.equal((await download(id, { range: 'bytes=10-' })).status, 416);
    const same = await download(id, { 'if-none-match': `"x", ${etag}` });
    assert.deepEqual([same.status, same.headers.get('etag'), await same.text()], [304, etag, '']);
    const head = await download(id, {}, 'HEAD');
    assert.deepEqual([head.status, head.headers.get('content-length'), await head.text()], [200, '10', '']);
  });

  it('an artifact is saved and never shown', async () => {
    const { id } = await keep('page.html', '<script>alert(1)</script>');
    const { headers } = await download(id);
    assert.match(headers.get('content-disposition') ?? '', /^attachment; /);
    assert.equal(headers.get('x-content-type-options'), 'nosniff');
    assert.match(headers.get('content-security-policy') ?? '', /sandbox/);
  });

  it('an artifact breaks off before its end if its content is damaged', async () => {
    const changed = await keep('changed', 'x'.repeat(100_000));
    const short = await keep('short', 'y'.repeat(100_000));
    const place = (sha256: string) => contents().find((file) => file.endsWith(sha256)) ?? '';
    writeFileSync(place(changed.sha256), `${'x'.repeat(99_999)}z`);
    truncateSync(place(short.sha256), 50_000);
    for (const { id } of [changed, short]) {
      await assert.rejects(async () => (await download(id)).text(), /terminated|failed/);
    }
  });
});

describe('a download link', () => {
  const link = async (id: string, body = {}) =>
    (await world.call('POST', `/v1/artifacts/${id}/download-url`, body)).body.download;

  it('a download link is replayed for its Idempotency-Key, and is nowhere at rest', async () => {
    const { id } = await keep('linked.txt', 'linked');
    const create = () => world.call('POST', `/v1/artifacts/${id}/download-url`, {}, 'link');
    const { url } = (await create()).body.download;
    assert.equal((await create()).body.download.url, url);
    const signature = new URL(url).search;
    const data = join(world.folder, 'data');
    const files = readdirSync(data, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
    const holding = (text: string) =>
      files.filter(({ parentPath, name }) => readFileSync(join(parentPath, name)).includes(text)).length;
    assert.equal(holding(signature), 0);
    // The control: what is recorded for others is found. With PostgreSQL the records are not in the folder.
    if (DATABASE_KIND === 'sqlite') assert.ok(holding('linked.txt') > 0);
  });

  it('a download link needs no key, and answers as the API does', async () => {
    const { id } = await keep('linked.txt', 'linked');
    const { url, expiresAt } = await link(id);
    assert.ok(Date.parse(expiresAt) > Date.now() + 3_500_000);
    const response = await fetch(url);
    assert.equal(await response.text(), 'linked');
    assert.match(response.headers.get('content-disposition') ?? '', /linked\.txt/);
    assert.equal(await (await fetch(url, { headers: { range: 'bytes=1-2' } })).text(), 'in');
    assert.equal((await fetch(url, { method: 'HEAD' })).headers.get('content-length'), '6');
    await world.call('DELETE', `/v1/artifacts/${id}`);
    assert.equal((await fetch(url)).status, 404);
  });

  it('a download link opens its own artifact alone, and until it expires', async () => {
    const [one, other] = [await keep('one', '1'), await keep('other', '2')];
    const { url } = await link(one.id);
    const changes: [string | RegExp, string][] = [
      [one.id, other.id],
      [/expires=\d/, 'expires=9'],
      [/signature=./, 'signature='],
      // The last character has two bits that are no part of the signature.
      [/.$/, otherSpelling(url.at(-1) ?? '')],
      [/signature=.*/, ''],
      [/&signature.*/, ''],
    ];
    for (const [from, to] of changes) assert.equal((await fetch(url.replace(from, to))).status, 403, String(from));
    const brief = await link(one.id, { expiresInMs: 1 });
    while (Date.now() <= Date.parse(brief.expiresAt));
    assert.equal((await fetch(brief.url)).status, 403);
    for (const expiresInMs of [0, 7 * 86_400_000 + 1, '1']) {
      const answer = await world.call('POST', `/v1/artifacts/${one.id}/download-url`, { expiresInMs });
      assert.equal(answer.body.error.code, 'invalid_request');
    }
  });
});

/** Returns the character of base64url that differs in its lowest bit. */
function otherSpelling(character: string): string {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  return alphabet[alphabet.indexOf(character) ^ 1] ?? '';
}

describe('artifacts', () => {
  it('outlive their sandbox, and cannot be created after its end', async () => {
    const other = await openPreviewWorld({ CLOCHE_ARTIFACT_RETENTION_MS: '3600000', CLOCHE_ARTIFACT_MAX_MB: '1' });
    const files = other.agent.client().files;
    const put = (path: string, bytes: Buffer) =>
      files.write(path, { open: () => Readable.from([bytes]) }, {}, AbortSignal.timeout(60_000));
    await put('kept', Buffer.from('kept'));
    await put('large', Buffer.alloc(2 ** 20 + 1));
    const post = (path: string) =>
      other.call('POST', `/v1/sandboxes/${other.sandboxId}/artifacts`, { path }, `key-${path}`);
    assert.equal((await post('large')).body.error.code, 'payload_too_large');
    assert.deepEqual(globSync(join(other.folder, 'data/server/artifacts/staging/*')), []);
    const { artifact } = (await post('kept')).body;
    assert.equal(Date.parse(artifact.expiresAt) - Date.parse(artifact.createdAt), 3_600_000);
    await other.call('DELETE', `/v1/sandboxes/${other.sandboxId}`);
    const headers = { authorization: `Bearer ${other.key}` };
    const content = await fetch(`${other.server.url}/v1/artifacts/${artifact.id}/content`, { headers });
    assert.equal(await content.text(), 'kept');
    assert.equal((await post('again')).body.error.code, 'sandbox_destroyed');
    await other.close();
  });
});

describe('the artifacts of an organization', () => {
  it('the artifacts of an organization have a limit for their total size, and deleting one makes room', async () => {
    const other = await openPreviewWorld({ CLOCHE_ARTIFACTS_MAX_MB: '1' });
    const files = other.agent.client().files;
    const post = async (path: string, bytes: number) => {
      const content = { open: () => Readable.from([Buffer.alloc(bytes, path)]) };
      await files.write(path, content, {}, AbortSignal.timeout(60_000));
      return other.call('POST', `/v1/sandboxes/${other.sandboxId}/artifacts`, { path }, `key-${path}`);
    };
    const { artifact } = (await post('first', 700_000)).body;
    const answers = await Promise.all(['a', 'b', 'c'].map((path) => post(path, 300_000)));
    assert.ok(answers.filter(({ status }) => status === 201).length <= 1);
    const { error } = (await post('second', 700_000)).body;
    assert.deepEqual(
      [error.code, error.details.quota, error.details.limit],
      ['quota_exceeded', 'artifactBytes', 2 ** 20],
    );
    assert.deepEqual(globSync(join(other.folder, 'data/server/artifacts/staging/*')), []);
    await other.call('DELETE', `/v1/artifacts/${artifact.id}`);
    assert.equal((await post('second', 700_000)).status, 201);
    await other.close();
  });
});

describe('outputs of a run that promotes them', () => {
  const run = async (code: string, artifactPolicy?: string) => {
    const body = { code, language: 'python', ...(artifactPolicy && { artifactPolicy }) };
    const answer = await world.call('POST', `/v1/sandboxes/${world.sandboxId}/code/runs`, body, `key-${++keys}`);
    return answer.body.run;
  };

  it('outputs of a run that promotes them become artifacts when they are binary or too large, and stay as they are otherwise', async () => {
    const png = Buffer.from('not really a picture').toString('base64');
    const promoted = await run(`value small\npicture ${png}\nlarge ${9 * 2 ** 20}`, 'promote');
    const [small, picture, large] = promoted.outputs;
    assert.deepEqual([small.kind, small.value], ['inline', 'small']);
    assert.deepEqual([picture.kind, picture.format, picture.value], ['artifact', 'png', undefined]);
    assert.equal(picture.sizeBytes, 20);
    assert.equal(picture.sha256, createHash('sha256').update('not really a picture').digest('hex'));
    const got = await download(picture.artifactId);
    assert.equal(got.headers.get('content-type'), 'image/png');
    assert.equal(await got.text(), 'not really a picture');
    assert.deepEqual([large.kind, large.sizeBytes], ['artifact', 9 * 2 ** 20]);
    const inline = await run(`picture ${png}`);
    assert.deepEqual([inline.outputs[0].kind, inline.outputs[0].value], ['inline', png]);
  });
});
