/**
 * Transfers without progress, each next to a slow one. The disk space of a removed file stays in use while a process
 * has the file open, so free space shows in every runtime whether a transfer is still open.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readlinkSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { sandboxFiles } from '../support/sandbox-files.ts';
import { type OwnService, testService } from '../support/service.ts';

const MIB = 2 ** 20;
/** More bytes than the buffers between server and client can hold. */
const SIZE = 200 * MIB;
/** Disk space that the file system uses itself. */
const SLACK = 16 * MIB;
const STALL_MS = 2000;

let service: OwnService;
before(async () => {
  service = await testService({ CLOCHE_TRANSFER_STALL_MS: String(STALL_MS) });
});
after(() => service?.close());

/** Looks within the sandbox, because on a busy machine a run that looks once can come after the end of a stalled one. */
const UNTIL_TWO_PARTS = `import glob, time
open("/workspace/looking", "w").close()
parts, end = 0, time.monotonic() + 20
while parts != 2 and time.monotonic() < end:
    parts = len(glob.glob("/workspace/.cloche-*.part"))
    time.sleep(0.01)
print(parts)`;

/** Creates a sandbox of the test's own, so that nothing else writes to its disk. */
async function ownFiles() {
  const { api, sandboxId, base } = await sandboxFiles(service, {});
  const python = async (code: string) => (await api.run(sandboxId, code)).stdout.trim();
  // The first run takes longer, and could find a transfer that has already ended.
  await python('None');
  return {
    base,
    sandboxId,
    python,
    contentPath: (path: string) => `${base}/content?path=${path}`,
    freeBytes: async () =>
      Number(await python('import os\nat = os.statvfs("/workspace")\nprint(at.f_bfree * at.f_bsize)')),
    fill: (name: string) =>
      python(`import os\nwith open("/workspace/${name}", "wb") as file: os.posix_fallocate(file.fileno(), 0, ${SIZE})`),
  };
}

/** Opens a connection and sends a request on it. Only `trickle` reads from it. */
async function begin(method: string, path: string, headers: Record<string, string> = {}): Promise<Socket> {
  const { hostname, port } = new URL(service.url);
  const socket = connect(Number(port), hostname).on('error', () => undefined);
  const all = { host: 'x', authorization: `Bearer ${service.apiKey}`, ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
  return socket;
}

async function download(path: string): Promise<Socket> {
  const socket = await begin('GET', path);
  await once(socket, 'readable');
  return socket;
}

/** Calls `act` five times per stall timeout until `socket` closes. Returns a function that closes it. */
function trickle(socket: Socket, act: () => void): () => void {
  const timer = setInterval(act, STALL_MS / 5);
  socket.once('close', () => clearInterval(timer));
  return () => socket.destroy();
}

/** Reads enough for the system to request more data, which it does after a sixteenth of its buffer. */
function takeSome(socket: Socket): void {
  let taken = 0;
  const take = (bytes: Buffer) => {
    taken += bytes.length;
    if (taken >= 2 * MIB) socket.off('data', take).pause();
  };
  socket.on('data', take).resume();
}

/** Reads the rest of the stream, and resolves with its size in bytes. */
async function drain(socket: Socket): Promise<number> {
  let bytes = 0;
  socket.on('data', (chunk) => {
    bytes += chunk.length;
  });
  if (!socket.closed) await once(socket, 'close');
  return bytes;
}

describe('a transfer of which no byte moves is given up, and one that moves slowly is not', {
  concurrency: true,
}, () => {
  it('when a client takes no more of a file, which is closed in the sandbox', async () => {
    const { contentPath, fill, freeBytes, python } = await ownFiles();
    const room = await freeBytes();
    await Promise.all(['slow', 'stalled'].map(fill));
    const slow = await download(contentPath('slow'));
    const stalled = await download(contentPath('stalled'));
    const end = trickle(slow, () => takeSome(slow));
    await python('import os\nfor name in ["slow", "stalled"]: os.remove(f"/workspace/{name}")');
    await eventually(async () => (await freeBytes()) > room - SIZE - SLACK);
    // The control: the transfer that is read slowly stays open.
    await delay(STALL_MS);
    assert.ok((await freeBytes()) < room - SIZE + SLACK, 'the slow one is still open');
    assert.ok((await drain(stalled)) < SIZE, 'the stalled one ended early');
    assert.equal(slow.closed, false);
    end();
    await eventually(async () => (await freeBytes()) > room - SLACK);
  });

  it('when a client takes no more of an artifact, by its key or by a link, which is closed in its store', async () => {
    const { fill, sandboxId } = await ownFiles();
    await fill('kept');
    const kept = await service.api.post(`/v1/sandboxes/${sandboxId}/artifacts`, { path: 'kept' });
    assert.equal(kept.status, 201, JSON.stringify(kept.body));
    const { id, sha256 } = kept.body.artifact;
    const link = await service.api.post(`/v1/artifacts/${id}/download-url`, {});
    const { pathname, search } = new URL(link.body.download.url);
    const held = () => openFiles(service.pid('server')).filter((file) => file.endsWith(sha256)).length;
    for (const path of [`/v1/artifacts/${id}/content`, pathname + search]) {
      const slow = await download(path);
      const stalled = await download(path);
      const end = trickle(slow, () => takeSome(slow));
      assert.equal(held(), 2, path);
      await eventually(() => held() === 1);
      await delay(STALL_MS);
      assert.equal(held(), 1, 'the slow one is still open');
      assert.ok((await drain(stalled)) < SIZE, 'the stalled one ended early');
      end();
      await eventually(() => held() === 0);
    }
  });

  for (const size of [MIB / 2, 64 * MIB]) {
    it(`when a client sends no more of a file of ${size / MIB} MiB, of which nothing is left`, async () => {
      const { base, contentPath, python } = await ownFiles();
      const parts = () => python('import glob\nprint(len(glob.glob("/workspace/.cloche-*.part")))');
      const headers = { 'content-length': String(size) };
      const seenBoth = python(UNTIL_TWO_PARTS);
      await eventually(async () => (await service.api.get(`${base}/stat?path=looking`)).status === 200);
      const stalled = await begin('PUT', contentPath('never'), headers);
      const slow = await begin('PUT', contentPath('late'), headers);
      stalled.write(Buffer.alloc(size / 4));
      const end = trickle(slow, () => slow.write(Buffer.alloc(1024)));
      assert.equal(await seenBoth, '2');
      await drain(stalled);
      await eventually(async () => (await parts()) === '1');
      assert.equal(slow.closed, false);
      end();
      await eventually(async () => (await parts()) === '0');
    });
  }
});

/** Returns the targets of a process's descriptors. */
function openFiles(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).flatMap((fd) => {
    try {
      return [readlinkSync(`${folder}/${fd}`)];
    } catch {
      // The descriptor was closed after it was listed.
      return [];
    }
  });
}
