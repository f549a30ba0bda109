/** Requests that once kept a server's thread, each with an honest one for the same work. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';

export interface HostileRequest {
  readonly name: string;
  /** The bytes of one request. */
  readonly hostile: Buffer;
  readonly honest: Buffer;
}

const HOST = 'Host: 127.0.0.1\r\nConnection: close\r\n';
/** Time of one request. Answers to wrong keys are delayed. */
const LONGEST_MS = 2_000;
const AT_ONCE = 8;
/** Slightly below the limit of a head. */
const HEAD_BYTES = 15_000;
const BODY_BYTES = 4 * 2 ** 20;

/** Returns the requests to a service that answers all protocols. None of them has a key. */
export function hostileRequests(): HostileRequest[] {
  const get = (path: string, fields = '') => Buffer.from(`GET ${path} HTTP/1.1\r\n${HOST}${fields}\r\n`, 'latin1');
  const post = (path: string, body: string | Buffer, fields = 'Content-Type: application/json\r\n') => {
    const bytes = Buffer.from(body);
    return Buffer.concat([
      Buffer.from(`POST ${path} HTTP/1.1\r\n${HOST}${fields}Content-Length: ${bytes.length}\r\n\r\n`),
      bytes,
    ]);
  };
  const values = `[${'[],'.repeat(BODY_BYTES / 3)}1]`;
  const levels = '['.repeat(BODY_BYTES);
  const form = `--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n${'y'.repeat(50_000)}\r\n`;
  const isForm = 'Content-Type: multipart/form-data; boundary=x\r\n';
  const isGzip = 'Content-Type: application/json\r\nContent-Encoding: gzip\r\n';
  const signed = (path: string) => get(`/files?path=${path}&signature=v1_x&signature_expiration=9999999999`);
  const list = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} });
  const wrongKey = 'Authorization: Bearer nonsense\r\n';
  const listing = `${wrongKey}Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n`;
  return [
    {
      name: 'a header of spaces',
      hostile: get('/v1/sandboxes', `Authorization: Bearer${' '.repeat(HEAD_BYTES)}\xff\r\n`),
      honest: get('/v1/sandboxes', `Authorization: Bearer ${'x'.repeat(1000)}\r\n`),
    },
    { name: 'values of JSON', hostile: post('/e2b/sandboxes', values), honest: post('/e2b/sandboxes', '{}') },
    { name: 'levels of JSON', hostile: post('/v1/sandboxes', levels), honest: post('/v1/sandboxes', '{}') },
    {
      name: 'a compressed body',
      hostile: post('/e2b-box/filesystem.Filesystem/Stat', gzipSync(Buffer.alloc(2 ** 26, ' ')), isGzip),
      honest: post('/e2b-box/filesystem.Filesystem/Stat', '{}'),
    },
    {
      name: 'fields of a form',
      hostile: post('/e2b-box/files', `${form.repeat(BODY_BYTES / 50_000)}--x--\r\n`, isForm),
      honest: post('/e2b-box/files', `${form}--x--\r\n`, isForm),
    },
    { name: 'a signature of a long path', hostile: signed('a'.repeat(HEAD_BYTES - 500)), honest: signed('a') },
    { name: 'a list of tools', hostile: post('/mcp', list, listing), honest: post('/mcp', '{}', listing) },
    {
      name: 'ranges of versions',
      hostile: post(
        '/piston/api/v2/execute',
        JSON.stringify({ language: 'python', version: '1 '.repeat(80_000), files: [] }),
      ),
      honest: post('/piston/api/v2/execute', JSON.stringify({ language: 'python', version: '3', files: [] })),
    },
    { name: 'many header fields', hostile: get('/healthz', 'a: b\r\n'.repeat(2_000)), honest: get('/healthz') },
    {
      name: 'a pipeline',
      hostile: Buffer.concat([
        ...Array(400).fill(Buffer.from('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n')),
        get('/healthz'),
      ]),
      honest: get('/metrics'),
    },
  ];
}

/** Sends a request `count` times, each on a connection of its own, and reads the answers to their ends. */
export async function sendAll(port: number, bytes: Buffer, count: number): Promise<void> {
  let left = count;
  const inTurn = async () => {
    for (; left > 0; left -= 1) await send(port, bytes);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, inTurn));
}

async function send(port: number, bytes: Buffer): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  const timer = setTimeout(() => socket.destroy(), LONGEST_MS);
  // A server may refuse the rest of a request by closing.
  socket.on('error', () => undefined).resume();
  socket.write(bytes);
  await once(socket, 'close').catch(() => undefined);
  clearTimeout(timer);
}
