import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Cloche } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';
import { sameWithEachRuntime } from '../support/claims.ts';
import { codeOf, jsonOf, type SandboxFiles, sandboxFiles } from '../support/sandbox-files.ts';
import { sharedService } from '../support/service.ts';

let files: SandboxFiles;
before(async () => {
  files = await sandboxFiles(await sharedService(), { diskMb: 256 });
});
after(() => files?.close());

describe('the files of a sandbox', () => {
  it('the files of a sandbox are listed, described, moved, copied and deleted', async () => {
    await files.write('tree/a.txt', 'a');
    await files.write('tree/sub/b.txt', 'b');
    await files.shell('ln -s a.txt tree/link');
    const list = await files.api.get(`${files.base}?path=tree&depth=2`);
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
    const link = await files.api.get(`${files.base}/stat?path=tree/link`);
    assert.deepEqual([link.body.file.type, link.body.file.target], ['symlink', 'a.txt']);

    assert.equal((await files.api.post(`${files.base}/directories`, { path: 'made/here' })).status, 201);
    const moved = await files.api.post(`${files.base}/move`, { from: 'tree', to: 'made/here/tree' });
    assert.equal(moved.body.file.path, '/workspace/made/here/tree');
    const copied = await files.api.post(`${files.base}/copy`, { from: 'made/here/tree', to: 'made/copy' });
    assert.equal(copied.status, 200);
    const taken = await files.api.post(`${files.base}/copy`, { from: 'made/here/tree', to: 'made/copy' });
    assert.deepEqual([taken.status, taken.body.error.code], [409, 'conflict']);
    const full = await files.api.delete(`${files.base}?path=made`);
    assert.deepEqual([full.status, full.body.error.code], [409, 'conflict']);
    assert.equal((await files.api.delete(`${files.base}?path=made&recursive=true`)).status, 200);
    assert.equal((await files.api.get(`${files.base}/stat?path=made`)).body.error.code, 'not_found');
  });

  it('files of the template are moved and replaced like others, though they lie on another layer', async () => {
    const paths = { from: '/usr/share/doc', to: '/workspace/doc' };
    const refused = await files.api.post(`${files.base}/move`, paths);
    assert.deepEqual([refused.status, refused.body.error?.details], [403, { path: '/usr/share/doc' }]);
    const moved = await files.api.post(`${files.base}/move`, { ...paths, user: 'root' });
    assert.equal(moved.status, 200, JSON.stringify(moved.body));
    assert.equal(await files.shell('ls -d /usr/share/doc 2>&1 | grep -c "No such"; ls doc | grep -c bash'), '1\n1');
    await files.api.delete(`${files.base}?path=doc&recursive=true&user=root`);
  });

  it('the files of a sandbox can be 10,000 in one directory', async () => {
    await files.shell('mkdir many && cd many && seq -f "file-%05g" 10000 | xargs touch');
    const { body } = await files.api.get(`${files.base}?path=many`);
    assert.deepEqual(
      [body.data.length, body.data[0].name, body.data.at(-1).name],
      [10_000, 'file-00001', 'file-10000'],
    );
    await files.shell('rm -r many');
  });

  it('the files of a sandbox have names of any bytes', async () => {
    await files.api.run(
      files.sandboxId,
      'import os\nos.makedirs(b"/workspace/odd")\nfor name in [b"new\\nline", b"\\xff\\xfe", b"n" * 255, "名前 %".encode()]:\n    open(b"/workspace/odd/" + name, "wb").write(name)',
    );
    const { body } = await files.api.get(`${files.base}?path=odd`);
    assert.equal(body.data.length, 4);
    for (const { path, sizeBytes } of body.data)
      assert.equal((await (await files.read(path)).arrayBuffer()).byteLength, sizeBytes);
    assert.ok(body.data.some(({ path }: { path: string }) => path === 'file:///workspace/odd/%FF%FE'));
    const again = await files.write('file:///workspace/odd/%FF%FE', 'changed');
    assert.equal(again.status, 200);
    const long = await files.write('n'.repeat(256), 'x');
    assert.deepEqual(await codeOf(long), [400, 'invalid_request']);
  });

  it('invalid paths and file types are refused without hanging', async () => {
    await files.shell('mkfifo pipe; ln -s loop-a loop-b; ln -s loop-b loop-a');
    for (const path of ['pipe', '/dev/zero', '/workspace', 'loop-a'])
      assert.deepEqual(await codeOf(await files.read(path)), [409, 'conflict'], path);
    for (const path of ['/proc/1/mem', '/etc/shadow'])
      assert.deepEqual(await codeOf(await files.read(path)), [403, 'permission_denied'], path);
    for (const path of ['pipe', '/dev/null', '/workspace'])
      assert.deepEqual(await codeOf(await files.write(path, 'x')), [409, 'conflict'], path);
  });

  it('files of the system can be read, those of unknown size too', async () => {
    assert.match(await (await files.read('/etc/os-release')).text(), /debian/i);
    assert.match(await (await files.read('/proc/cpuinfo')).text(), /processor/);
    assert.match(await (await files.read('../proc/self/status')).text(), /^Name:\s+node/);
  });

  it('the files of a sandbox belong to those with the scopes, in their sandboxes', async () => {
    const org = await files.service.createOrg('files-other');
    const foreign = await files.service.createKey({ org, name: 'other', scopes: ['*'] });
    const answer = await fetch(files.contentUrl('/etc/os-release'), {
      headers: { authorization: `Bearer ${foreign}` },
    });
    assert.deepEqual(await codeOf(answer), [404, 'not_found']);
  });

  it('the files of a sandbox can be written while the sandbox is still being made, and not after its end', async () => {
    const { body } = await files.api.post('/v1/sandboxes', {});
    const { id } = body.sandbox;
    const url = `/v1/sandboxes/${id}/files/content?path=early`;
    const headers = { 'content-type': 'text/plain' };
    assert.equal((await files.api.request('PUT', url, { body: 'early', headers })).status, 200);
    await files.api.delete(`/v1/sandboxes/${id}`);
    assert.equal((await files.api.get(url)).body.error.code, 'sandbox_destroyed');
  });
});

describe('a directory as an archive', () => {
  const archiveUrl = (query: string) => `${files.service.url}${files.base}/archive?${query}`;

  it('a directory is read as an archive and unpacked elsewhere, in each format', async () => {
    await files.shell(
      'mkdir -p packed/sub && echo one > packed/one && echo two > packed/sub/two && ln -s one packed/link',
    );
    for (const format of ['tar', 'tar.gz', 'zip']) {
      const archive = await fetch(archiveUrl(`path=packed&format=${format}`), { headers: files.headers });
      assert.equal(archive.status, 200);
      const body = await archive.arrayBuffer();
      const unpacked = await fetch(archiveUrl(`path=unpacked/${format}`), {
        method: 'PUT',
        headers: files.headers,
        body,
      });
      const { entries, sizeBytes, file } = await jsonOf(unpacked);
      assert.deepEqual([entries, sizeBytes, file.path], [4, 8, `/workspace/unpacked/${format}`]);
      assert.equal(
        await files.shell(`diff -r packed unpacked/${format} && stat -c %U unpacked/${format}/sub/two`),
        'user',
      );
    }
  });

  it('an archive that climbs out of its directory is refused, and nothing is written', async () => {
    await files.shell(
      'mkdir evil && cd evil && echo x > x && tar -cPf ../evil.tar --transform "s,^,../../../tmp/escaped/," x',
    );
    const body = await (await files.read('evil.tar')).arrayBuffer();
    const answer = await fetch(archiveUrl('path=fresh'), { method: 'PUT', headers: files.headers, body });
    assert.deepEqual(await codeOf(answer), [400, 'invalid_request']);
    assert.equal(await files.shell('ls -d fresh /tmp/escaped 2>&1 | grep -c "No such file"'), '2');
  });

  const counted = sameWithEachRuntime('the agent counts what it unpacks; file-contents fills the disk with each');
  it(
    'an archive that is a decompression bomb is refused for its size, and nothing of it is left',
    counted,
    async () => {
      await files.shell('mkdir bomb && truncate -s 300M bomb/zeros && tar -czf bomb.tgz bomb && rm -r bomb');
      const bomb = await files.read('bomb.tgz');
      assert.equal(bomb.status, 200);
      const body = await bomb.arrayBuffer();
      const answer = await fetch(archiveUrl('path=exploded'), { method: 'PUT', headers: files.headers, body });
      assert.deepEqual(await codeOf(answer), [507, 'disk_full']);
      assert.equal(
        await files.shell('ls -d exploded 2>&1 | grep -c "No such file"; find / -xdev -name ".cloche-*.part" | wc -l'),
        '1\n0',
      );
    },
  );
});

describe('a watched directory', () => {
  it('a watched directory reports changes by the API and by code, and ends with the sandbox', async () => {
    const { id } = await files.api.readySandbox();
    const sandbox = await new Cloche({ url: files.service.url, apiKey: files.service.apiKey }).sandboxes.get(id);
    await sandbox.files.makeDirectory('watched/sub');
    const events = sandbox.files.watch('watched', { recursive: true });
    const first = events.next();
    const next = async () => {
      const { value } = await events.next();
      return value && 'path' in value.data ? `${value.type} ${value.data.path}` : value?.type;
    };
    // The watch begins when its stream opens, and only its first event shows this.
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
