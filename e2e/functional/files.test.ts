import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import { Cloche } from '@cloche/sdk';
import { eventually } from '../support/eventually.ts';
import { residentBytes } from '../support/process.ts';
import { type TestService, testService } from '../support/service.ts';

const MIB = 1024 * 1024;

let service: TestService;
let sandboxId: string;

before(async () => {
  service = await testService();
  sandboxId = (await service.api.readySandbox({ resources: { diskMb: 512 } })).id;
});
after(() => service?.close());

const base = () => `/v1/sandboxes/${sandboxId}/files`;
const contentUrl = (path: string, rest = '') =>
  `${service.url}${base()}/content?path=${encodeURIComponent(path)}${rest}`;
const authorization = () => `Bearer ${service.apiKey}`;
const read = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(contentUrl(path), { method, headers: { authorization: authorization(), ...headers } });
const write = (
  path: string,
  body: string | Uint8Array<ArrayBuffer> | ReadableStream,
  headers: Record<string, string> = {},
) =>
  fetch(contentUrl(path), {
    method: 'PUT',
    headers: { authorization: authorization(), ...headers },
    body,
    duplex: 'half',
  } as RequestInit);
const shell = async (line: string) => (await service.api.run(sandboxId, `!${line}`)).stdout.trim();
// biome-ignore lint/suspicious/noExplicitAny: a body is asserted on, field by field
const jsonOf = (response: Response): Promise<any> => response.json();
const codeOf = async (response: Response) => [response.status, (await jsonOf(response)).error?.code];

describe('the content of a file', () => {
  it('is written and read back, by the API and by code', async () => {
    const bytes = randomBytes(5 * MIB);
    const written = await write('data/new/file.bin', bytes);
    assert.equal(written.status, 200);
    const { file } = await jsonOf(written);
    assert.deepEqual(
      [file.path, file.name, file.type, file.sizeBytes, file.mode, file.uid],
      ['/workspace/data/new/file.bin', 'file.bin', 'file', bytes.length, '0644', 1000],
    );
    assert.equal(written.headers.get('etag'), file.etag);
    const answer = await read('/workspace/data/new/file.bin');
    assert.equal(answer.headers.get('etag'), file.etag);
    assert.ok(Buffer.from(await answer.arrayBuffer()).equals(bytes));
    assert.equal(await shell('stat -c "%U %a %s" data/new/file.bin data'), 'user 644 5242880\nuser 755 4096');
    await service.api.run(sandboxId, 'open("/workspace/from-code", "w").write("héllo")');
    assert.equal(await (await read('from-code')).text(), 'héllo');
  });

  it('is given in ranges, and not at all to those who have it', async () => {
    await write('ranged', '0123456789');
    const part = await read('ranged', { range: 'bytes=2-4' });
    assert.deepEqual([part.status, await part.text()], [206, '234']);
    assert.equal(part.headers.get('content-range'), 'bytes 2-4/10');
    const etag = part.headers.get('etag') ?? '';
    const known = await read('ranged', { 'if-none-match': etag });
    assert.deepEqual([known.status, await known.text()], [304, '']);
    const beyond = await read('ranged', { range: 'bytes=10-' });
    assert.equal(beyond.headers.get('content-range'), 'bytes */10');
    assert.deepEqual(await codeOf(beyond), [416, 'range_not_satisfiable']);
    const head = await read('ranged', {}, 'HEAD');
    assert.deepEqual([head.status, head.headers.get('content-length'), await head.text()], [200, '10', '']);
    assert.equal((await read('missing', {}, 'HEAD')).status, 404);
  });

  it('changes only where the condition holds', async () => {
    const etag = (await write('guarded', 'one')).headers.get('etag') ?? '';
    assert.deepEqual(await codeOf(await write('guarded', 'two', { 'if-none-match': '*' })), [
      412,
      'precondition_failed',
    ]);
    assert.equal((await write('guarded', 'two', { 'if-match': etag })).status, 200);
    assert.deepEqual(await codeOf(await write('guarded', 'three', { 'if-match': etag })), [412, 'precondition_failed']);
    assert.equal(await (await read('guarded')).text(), 'two');
  });

  it('of 5 GB that are mostly holes is read at its end, and described', async () => {
    await shell('truncate -s 5G sparse && printf end >> sparse');
    const head = await read('sparse', {}, 'HEAD');
    assert.equal(head.headers.get('content-length'), String(5 * 1024 ** 3 + 3));
    assert.equal(await (await read('sparse', { range: 'bytes=-5' })).text(), '\0\0end');
    await shell('rm sparse');
  });

  it('of 300 MB costs the server bounded memory, both ways', async () => {
    const size = 300 * MIB;
    const before = residentBytes(service.pid('server'));
    const chunk = randomBytes(MIB);
    const source = Readable.from(Array.from({ length: 300 }, () => chunk));
    assert.equal((await write('large', Readable.toWeb(source) as ReadableStream)).status, 200);
    let length = 0;
    for await (const part of (await read('large')).body ?? []) length += part.length;
    assert.equal(length, size);
    const grown = residentBytes(service.pid('server')) - before;
    assert.ok(grown < 200 * MIB, `grew by ${(grown / MIB).toFixed(0)} MiB`);
    await shell('rm large');
  });

  it('that a client does not read is kept by nobody, and the connection ends with the client', async () => {
    await shell('truncate -s 2G zeros');
    const { hostname, port } = new URL(service.url);
    const before = residentBytes(service.pid('server'));
    const socket = connect(Number(port), hostname);
    await once(socket, 'connect');
    socket.pause();
    socket.write(`GET ${base()}/content?path=zeros HTTP/1.1\r\nhost: x\r\nauthorization: ${authorization()}\r\n\r\n`);
    await once(socket, 'readable');
    assert.equal((await read('guarded')).status, 200);
    assert.ok(residentBytes(service.pid('server')) - before < 100 * MIB);
    socket.destroy();
    await shell('rm zeros');
  });
});

describe('an upload that does not end well', () => {
  const parts = () => shell('find / -xdev -name ".cloche-*.part" 2>/dev/null | wc -l');

  it('because its client vanishes leaves no file and no part of one', async () => {
    const { hostname, port } = new URL(service.url);
    const socket = connect(Number(port), hostname);
    await once(socket, 'connect');
    const head = `host: x\r\nauthorization: ${authorization()}\r\ncontent-length: ${100 * MIB}`;
    socket.write(`PUT ${base()}/content?path=vanished/file HTTP/1.1\r\n${head}\r\n\r\n`);
    socket.write(randomBytes(5 * MIB));
    await eventually(async () => (await parts()) === '1');
    socket.destroy();
    await eventually(async () => (await parts()) === '0');
    assert.equal(await shell('ls vanished 2>&1 | grep -c "No such file"'), '1');
  });

  it('because the disk is full says so while it is sent, and leaves the old file whole', async () => {
    await write('precious', 'old');
    const announced = await write('precious', 'x', { 'content-length': String(50 * 1024 * MIB) }).catch(
      () => undefined,
    );
    assert.notEqual(announced?.status, 200);
    const chunk = randomBytes(MIB);
    async function* endless() {
      for (;;) yield chunk;
    }
    const answer = await write('precious', Readable.toWeb(Readable.from(endless())) as ReadableStream);
    assert.deepEqual(await codeOf(answer), [507, 'disk_full']);
    assert.equal(await (await read('precious')).text(), 'old');
    assert.equal(await parts(), '0');
    assert.equal((await write('after', 'there is room again')).status, 200);
  });
});

describe('the files of a sandbox', () => {
  it('are listed, described, moved, copied and deleted', async () => {
    await write('tree/a.txt', 'a');
    await write('tree/sub/b.txt', 'b');
    await shell('ln -s a.txt tree/link');
    const list = await service.api.get(`${base()}?path=tree&depth=2`);
    assert.deepEqual(
      list.body.data.map(({ path, type }: { path: string; type: string }) => [
        path.slice('/workspace/tree/'.length),
        type,
      ]),
      [
        ['a.txt', 'file'],
        ['link', 'symlink'],
        ['sub', 'directory'],
        ['sub/b.txt', 'file'],
      ],
    );
    assert.equal(list.body.hasMore, false);
    const link = await service.api.get(`${base()}/stat?path=tree/link`);
    assert.deepEqual([link.body.file.type, link.body.file.target], ['symlink', 'a.txt']);

    assert.equal((await service.api.post(`${base()}/directories`, { path: 'made/here' })).status, 201);
    const moved = await service.api.post(`${base()}/move`, { from: 'tree', to: 'made/here/tree' });
    assert.equal(moved.body.file.path, '/workspace/made/here/tree');
    const copied = await service.api.post(`${base()}/copy`, { from: 'made/here/tree', to: 'made/copy' });
    assert.equal(copied.status, 200);
    const taken = await service.api.post(`${base()}/copy`, { from: 'made/here/tree', to: 'made/copy' });
    assert.deepEqual([taken.status, taken.body.error.code], [409, 'conflict']);
    const full = await service.api.delete(`${base()}?path=made`);
    assert.deepEqual([full.status, full.body.error.code], [409, 'conflict']);
    assert.equal((await service.api.delete(`${base()}?path=made&recursive=true`)).status, 200);
    assert.equal((await service.api.get(`${base()}/stat?path=made`)).body.error.code, 'not_found');
  });

  it('of the template are moved and replaced like others, though they lie on another layer', async () => {
    const moved = await service.api.post(`${base()}/move`, { from: '/usr/share/doc', to: '/workspace/doc' });
    assert.equal(moved.status, 200, JSON.stringify(moved.body));
    assert.equal(await shell('ls -d /usr/share/doc 2>&1 | grep -c "No such"; ls doc | grep -c bash'), '1\n1');
    await shell('rm -rf doc');
  });

  it('are 10,000 in one directory without trouble', async () => {
    await shell('mkdir many && cd many && seq -f "file-%05g" 10000 | xargs touch');
    const { body } = await service.api.get(`${base()}?path=many`);
    assert.deepEqual(
      [body.data.length, body.data[0].name, body.data.at(-1).name],
      [10_000, 'file-00001', 'file-10000'],
    );
    await shell('rm -r many');
  });

  it('have names of any bytes', async () => {
    await service.api.run(
      sandboxId,
      'import os\nos.makedirs(b"/workspace/odd")\nfor name in [b"new\\nline", b"\\xff\\xfe", b"n" * 255, "名前 %".encode()]:\n    open(b"/workspace/odd/" + name, "wb").write(name)',
    );
    const { body } = await service.api.get(`${base()}?path=odd`);
    assert.equal(body.data.length, 4);
    for (const { path, sizeBytes } of body.data)
      assert.equal((await (await read(path)).arrayBuffer()).byteLength, sizeBytes);
    assert.ok(body.data.some(({ path }: { path: string }) => path === 'file:///workspace/odd/%FF%FE'));
    const again = await write('file:///workspace/odd/%FF%FE', 'changed');
    assert.equal(again.status, 200);
    const long = await write('n'.repeat(256), 'x');
    assert.deepEqual(await codeOf(long), [400, 'invalid_request']);
  });

  it('that are none are refused without hanging', async () => {
    await shell('mkfifo pipe; ln -s loop-a loop-b; ln -s loop-b loop-a');
    for (const path of ['pipe', '/dev/zero', '/workspace', 'loop-a', '/proc/1/mem'])
      assert.deepEqual(await codeOf(await read(path)), [409, 'conflict'], path);
    for (const path of ['pipe', '/dev/null', '/workspace'])
      assert.deepEqual(await codeOf(await write(path, 'x')), [409, 'conflict'], path);
  });

  it('of the system can be read, those of unknown size too', async () => {
    assert.match(await (await read('/etc/os-release')).text(), /debian/i);
    assert.match(await (await read('/proc/cpuinfo')).text(), /processor/);
    assert.match(await (await read('../proc/self/status')).text(), /^Name:\s+node/);
  });

  it('belong to those with the scopes, in their sandboxes', async () => {
    const org = await service.createOrg('files-other');
    const foreign = await service.createKey({ org, name: 'other', scopes: ['*'] });
    const answer = await fetch(contentUrl('guarded'), { headers: { authorization: `Bearer ${foreign}` } });
    assert.deepEqual(await codeOf(answer), [404, 'not_found']);
  });

  it('can be written while the sandbox is still being made, and not after its end', async () => {
    const { body } = await service.api.post('/v1/sandboxes', {});
    const { id } = body.sandbox;
    const url = `/v1/sandboxes/${id}/files/content?path=early`;
    const headers = { 'content-type': 'text/plain' };
    assert.equal((await service.api.request('PUT', url, { body: 'early', headers })).status, 200);
    await service.api.delete(`/v1/sandboxes/${id}`);
    assert.equal((await service.api.get(url)).body.error.code, 'sandbox_destroyed');
  });
});

describe('a directory as an archive', () => {
  const archiveUrl = (query: string) => `${service.url}${base()}/archive?${query}`;
  const headers = () => ({ authorization: authorization() });

  it('is read and unpacked elsewhere, in each format', async () => {
    await shell('mkdir -p packed/sub && echo one > packed/one && echo two > packed/sub/two && ln -s one packed/link');
    for (const format of ['tar', 'tar.gz', 'zip']) {
      const archive = await fetch(archiveUrl(`path=packed&format=${format}`), { headers: headers() });
      assert.equal(archive.status, 200);
      const body = await archive.arrayBuffer();
      const unpacked = await fetch(archiveUrl(`path=unpacked/${format}`), { method: 'PUT', headers: headers(), body });
      const { entries, sizeBytes, file } = await jsonOf(unpacked);
      assert.deepEqual([entries, sizeBytes, file.path], [4, 8, `/workspace/unpacked/${format}`]);
      assert.equal(await shell(`diff -r packed unpacked/${format} && stat -c %U unpacked/${format}/sub/two`), 'user');
    }
  });

  it('that climbs out is refused, and nothing is written', async () => {
    await shell(
      'mkdir evil && cd evil && echo x > x && tar -cPf ../evil.tar --transform "s,^,../../../tmp/escaped/," x',
    );
    const body = await (await read('evil.tar')).arrayBuffer();
    const answer = await fetch(archiveUrl('path=fresh'), { method: 'PUT', headers: headers(), body });
    assert.deepEqual(await codeOf(answer), [400, 'invalid_request']);
    assert.equal(await shell('ls -d fresh /tmp/escaped 2>&1 | grep -c "No such file"'), '2');
  });

  it('that is a bomb is refused for the room it takes, and nothing is left', async () => {
    await shell('mkdir bomb && truncate -s 600M bomb/zeros && tar -czf bomb.tgz bomb && rm -r bomb');
    const body = await (await read('bomb.tgz')).arrayBuffer();
    const answer = await fetch(archiveUrl('path=exploded'), { method: 'PUT', headers: headers(), body });
    assert.deepEqual(await codeOf(answer), [507, 'disk_full']);
    assert.equal(
      await shell('ls -d exploded 2>&1 | grep -c "No such file"; find / -xdev -name ".cloche-*.part" | wc -l'),
      '1\n0',
    );
  });
});

describe('a watched directory', () => {
  it('tells what changes in it, by the API and by code, and ends with the sandbox', async () => {
    const { id } = await service.api.readySandbox();
    const sandbox = await new Cloche({ url: service.url, apiKey: service.apiKey }).sandboxes.get(id);
    await sandbox.files.makeDirectory('watched/sub');
    const events = sandbox.files.watch('watched', { recursive: true });
    const first = events.next();
    const next = async () => {
      const { value } = await events.next();
      return value && 'path' in value.data ? `${value.type} ${value.data.path}` : value?.type;
    };
    // The watch begins when its stream opens, which nothing but its first event shows.
    await eventually(async () => {
      await sandbox.files.write('watched/ping', 'x');
      return await Promise.race([
        first.then(() => true),
        new Promise<boolean>((resolve) => setTimeout(resolve, 200, false)),
      ]);
    });
    await sandbox.run('open("/workspace/watched/sub/by-code", "w").close()');
    let seen: string | undefined;
    while (seen !== 'created /workspace/watched/sub/by-code') seen = await next();
    await sandbox.kill();
    await assert.rejects(
      async () => {
        while (await next());
      },
      { code: 'sandbox_destroyed' },
    );
  });
});
