/** `upstream-server.ts CERT KEY`: answers `/N` with N bytes. */
import { readFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { pipeline, Readable } from 'node:stream';

const [cert = '', key = ''] = process.argv.slice(2);
const CHUNK = Buffer.alloc(64 * 1024, 'x');

const answer: RequestListener = (request, response) => {
  const length = Number(/^\/(\d+)/.exec(request.url ?? '')?.[1] ?? 0);
  response.writeHead(200, { 'content-length': length });
  pipeline(Readable.from(chunks(length)), response, () => {});
};

function* chunks(length: number): Generator<Buffer> {
  for (let left = length; left > 0; left -= CHUNK.length) yield left < CHUNK.length ? CHUNK.subarray(0, left) : CHUNK;
}

createServer(answer).listen(80, '0.0.0.0');
createTlsServer({ cert: readFileSync(cert), key: readFileSync(key) }, answer).listen(443, '0.0.0.0', () =>
  console.log('listening'),
);
