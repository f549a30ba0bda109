/**
 * `app-server.mjs [PORT]`: the app behind a preview. Answers `/N` with N bytes, and reads request bodies to their end.
 */
import { createServer } from 'node:http';
import { pipeline, Readable } from 'node:stream';

const CHUNK = Buffer.alloc(64 * 1024, 'x');

const server = createServer((request, response) => {
  const length = Number(/^\/(\d+)/.exec(request.url ?? '')?.[1] ?? 0);
  request.resume().once('end', () => {
    response.writeHead(200, { 'content-length': length });
    pipeline(Readable.from(chunks(length)), response, () => {});
  });
});

function* chunks(length) {
  for (let left = length; left > 0; left -= CHUNK.length) yield left < CHUNK.length ? CHUNK.subarray(0, left) : CHUNK;
}

server.listen(Number(process.argv[2] ?? 0), '127.0.0.1', () => process.send?.(server.address().port));
process.once('disconnect', () => process.exit());
