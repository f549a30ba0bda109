import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { sameWithEachRuntime } from '../support/claims.ts';
import { lentService } from '../support/lent-service.ts';
import { residentBytes } from '../support/process.ts';
import { codeOf, jsonOf, type SandboxFiles, sandboxFiles } from '../support/sandbox-files.ts';

const MIB = 1024 * 1024;

let files: SandboxFiles;
before(async () => {
  // Enough memory for all files to stay in the page cache.
  files = await sandboxFiles(await lentService(), { diskMb: 1536, memoryMb: 3072 });
});
after(() => files?.close());

/** Uploads this many bytes from a buffer of one mebibyte. Resolves with the status of the response. */
async function upload(path: string, size: number, headers: Record<string, string>): Promise<number | undefined> {
  const chunk = randomBytes(MIB);
  const sent = request(files.contentUrl(path), { method: 'PUT', headers: { ...files.headers, ...headers } });
  const answered = once(sent, 'response');
  await pipeline(Readable.from(Array.from({ length: size / MIB }, () => chunk)), sent);
  const [response] = (await answered) as [IncomingMessage];
  response.resume();
  return response.statusCode;
}

/** Returns the memory of server and agent. The agent's is its peak, where the system reports one. */
async function residentParts(): Promise<{ server: number; agent: number }> {
  const kilobytes = await files.shell(
    `cat $(grep -l agent.cjs /proc/[0-9]*/cmdline | sed s,cmdline,status,) | grep -E 'Vm(HWM|RSS)' | sort -n -k 2 | tail -1`,
  );
  const agent = Number(/(\d+) kB/.exec(kilobytes)?.[1]) * 1024;
  assert.ok(agent > 0, kilobytes);
  return { server: residentBytes(files.service.pid('server')), agent };
}

describe('the content of a file', () => {
  it('the content of a file is written and read back, by the API and by code', async () => {
    const bytes = randomBytes(5 * MIB);
    const written = await files.write('data/new/file.bin', bytes);
    assert.equal(written.status, 200);
    const { file } = await jsonOf(written);
    assert.deepEqual(
      [file.path, file.name, file.type, file.sizeBytes, file.mode, file.uid],
      ['/workspace/data/new/file.bin', 'file.bin', 'file', bytes.length, '0644', 1000],
    );
    assert.equal(written.headers.get('etag'), file.etag);
    const answer = await files.read('/workspace/data/new/file.bin');
    assert.equal(answer.headers.get('etag'), file.etag);
    assert.ok(Buffer.from(await answer.arrayBuffer()).equals(bytes));
    assert.equal(await files.shell('stat -c "%U %a %s" data/new/file.bin data'), 'user 644 5242880\nuser 755 4096');
    await files.api.run(files.sandboxId, 'open("/workspace/from-code", "w").write("héllo")');
    assert.equal(await (await files.read('from-code')).text(), 'héllo');
  });

  it('the content of a file is sent in ranges, and not at all to clients that have it', async () => {
    await files.write('ranged', '0123456789');
    const part = await files.read('ranged', { range: 'bytes=2-4' });
    assert.deepEqual([part.status, await part.text()], [206, '234']);
    assert.equal(part.headers.get('content-range'), 'bytes 2-4/10');
    const etag = part.headers.get('etag') ?? '';
    const known = await files.read('ranged', { 'if-none-match': etag });
    assert.deepEqual([known.status, await known.text()], [304, '']);
    const beyond = await files.read('ranged', { range: 'bytes=10-' });
    assert.equal(beyond.headers.get('content-range'), 'bytes */10');
    assert.deepEqual(await codeOf(beyond), [416, 'range_not_satisfiable']);
    const head = await files.read('ranged', {}, 'HEAD');
    assert.deepEqual([head.status, head.headers.get('content-length'), await head.text()], [200, '10', '']);
    assert.equal((await files.read('missing', {}, 'HEAD')).status, 404);
  });

  it('the content of a file changes only where the condition holds', async () => {
    const etag = (await files.write('guarded', 'one')).headers.get('etag') ?? '';
    assert.deepEqual(await codeOf(await files.write('guarded', 'two', { 'if-none-match': '*' })), [
      412,
      'precondition_failed',
    ]);
    assert.equal((await files.write('guarded', 'two', { 'if-match': etag })).status, 200);
    assert.deepEqual(await codeOf(await files.write('guarded', 'three', { 'if-match': etag })), [
      412,
      'precondition_failed',
    ]);
    assert.equal(await (await files.read('guarded')).text(), 'two');
  });

  it('the content of a sparse file of 5 GB is read at its end, and described', async () => {
    await files.shell('truncate -s 5G sparse && printf end >> sparse');
    const head = await files.read('sparse', {}, 'HEAD');
    assert.equal(head.headers.get('content-length'), String(5 * 1024 ** 3 + 3));
    assert.equal(await (await files.read('sparse', { range: 'bytes=-5' })).text(), '\0\0end');
    await files.shell('rm sparse');
  });

  const buffered = sameWithEachRuntime('the buffers of server and agent, which do not depend on what is below them');
  it('the content of a file of 512 MiB costs server and agent bounded memory, both ways', buffered, async () => {
    const before = await residentParts();
    const announced = { 'content-length': String(512 * MIB) };
    for (const [size, headers] of [
      [512 * MIB, announced],
      [300 * MIB, {}],
    ] as const) {
      assert.equal(await upload('large', size, headers), 200);
      let length = 0;
      for await (const part of (await files.read('large')).body ?? []) length += part.length;
      assert.equal(length, size);
      await files.shell('rm large');
    }
    const after = await residentParts();
    for (const [part, most] of [
      ['server', 200 * MIB],
      // At its highest: 47 to 79 MiB, as the collector has its turn.
      ['agent', 128 * MIB],
    ] as const) {
      const grown = after[part] - before[part];
      assert.ok(grown < most, `${part} grew by ${(grown / MIB).toFixed(0)} MiB`);
    }
  });

  it('content that a client does not read is not buffered, and the connection ends with the client', async () => {
    await files.shell('truncate -s 2G zeros');
    const { hostname, port } = new URL(files.service.url);
    const before = residentBytes(files.service.pid('server'));
    const socket = connect(Number(port), hostname);
    await once(socket, 'connect');
    socket.pause();
    socket.write(
      `GET ${files.base}/content?path=zeros HTTP/1.1\r\nhost: x\r\nauthorization: ${files.headers.authorization}\r\n\r\n`,
    );
    await once(socket, 'readable');
    assert.equal((await files.read('guarded')).status, 200);
    assert.ok(residentBytes(files.service.pid('server')) - before < 100 * MIB);
    socket.destroy();
    await files.shell('rm zeros');
  });
});

describe('an upload that does not end well', () => {
  const parts = () => files.shell('find / -xdev -name ".cloche-*.part" 2>/dev/null | wc -l');

  it('because its client vanishes leaves no file and no part of one', async () => {
    const { hostname, port } = new URL(files.service.url);
    const socket = connect(Number(port), hostname);
    await once(socket, 'connect');
    const head = `host: x\r\nauthorization: ${files.headers.authorization}\r\ncontent-length: ${100 * MIB}`;
    socket.write(`PUT ${files.base}/content?path=vanished/file HTTP/1.1\r\n${head}\r\n\r\n`);
    socket.write(randomBytes(5 * MIB));
    await eventually(async () => (await parts()) === '1');
    socket.destroy();
    await eventually(async () => (await parts()) === '0');
    assert.equal(await files.shell('ls vanished 2>&1 | grep -c "No such file"'), '1');
  });

  it('because the disk is full says so while it is sent, and leaves the old file whole', async () => {
    await files.write('precious', 'old');
    await files.shell('fallocate -l 1300M filler');
    const announced = await files
      .write('precious', 'x', { 'content-length': String(50 * 1024 * MIB) })
      .catch(() => undefined);
    assert.notEqual(announced?.status, 200);
    const chunk = randomBytes(MIB);
    async function* endless() {
      for (;;) yield chunk;
    }
    const answer = await files.write('precious', Readable.toWeb(Readable.from(endless())) as ReadableStream);
    assert.deepEqual(await codeOf(answer), [507, 'disk_full']);
    assert.equal(await (await files.read('precious')).text(), 'old');
    assert.equal(await parts(), '0');
    assert.equal((await files.write('after', 'there is room again')).status, 200);
    await files.shell('rm filler');
  });
});
