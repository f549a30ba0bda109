import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { sameWithEachRuntime } from '../support/claims.ts';
import { lentService } from '../support/lent-service.ts';
import { residentBytes } from '../support/process.ts';
import type { LentService } from '../support/service.ts';

const MIB = 2 ** 20;
const SWITCH =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';

const PYTHON_SERVER = `
import http.server, threading, hashlib
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *_): pass
    def do_GET(self):
        size = int(self.path.strip('/') or 0)
        self.send_response(200)
        self.send_header('Content-Length', str(size))
        self.end_headers()
        chunk = b'x' * 65536
        while size > 0:
            self.wfile.write(chunk[:size])
            size -= len(chunk)
    def do_POST(self):
        left, digest = int(self.headers['Content-Length']), hashlib.sha256()
        while left:
            chunk = self.rfile.read(min(left, 65536))
            digest.update(chunk)
            left -= len(chunk)
        body = digest.hexdigest().encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()`;

const NODE_SERVER = `
const { createServer } = await import('node:http');
const { createHash } = await import('node:crypto');
const app = createServer((request, response) => {
  if (request.url !== '/events') return response.end('node says ' + request.method + ' ' + request.url);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  let count = 0;
  const timer = setInterval(() => response.write('data: ' + ++count + '\\n\\n'), 10);
  response.once('close', () => clearInterval(timer));
});
app.on('upgrade', (request, socket) => {
  const accept = createHash('sha1').update(request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Accept: ' + accept + '\\r\\n\\r\\n');
  socket.on('error', () => {}).pipe(socket);
});
await new Promise((resolve) => app.listen(8001, '127.0.0.1', resolve));`;

/** Three servers: one sends a greeting, as ssh does; one does not answer in HTTP; one accepts and closes. */
const NO_HTTP_SERVERS = `
import socket, threading
def serve(port, greeting, answer):
    listener = socket.create_server(('127.0.0.1', port))
    def accept():
        while True:
            connection, _ = listener.accept()
            connection.sendall(greeting)
            connection.recv(65536)
            connection.sendall(answer)
            connection.close()
    threading.Thread(target=accept, daemon=True).start()
serve(8010, b'SSH-2.0-OpenSSH_9.2\\r\\n', b'')
serve(8011, b'', b'-ERR unknown command\\r\\n')
serve(8012, b'', b'')`;

let service: LentService;
let sandboxId: string;
before(async () => {
  service = await lentService();
  sandboxId = (await service.api.readySandbox({ networkPolicy: { mode: 'deny-all' } })).id;
});
after(() => service.close());

async function openPreview(port: number): Promise<{ id: string; host: string; token: string }> {
  const answer = await service.api.post(`/v1/sandboxes/${sandboxId}/previews`, { port });
  assert.equal(answer.status, 201, JSON.stringify(answer.body));
  const { id, url, accessToken } = answer.body.preview;
  return { id, host: new URL(url).host, token: accessToken };
}

/** Sends a request. The caller reads the response. */
function ask(preview: { host: string; token: string }, path = '/', method = 'GET', bodyBytes?: number) {
  const { port } = new URL(service.url);
  const headers = {
    host: preview.host,
    'x-cloche-preview-token': preview.token,
    ...(bodyBytes === undefined ? {} : { 'content-length': String(bodyBytes) }),
  };
  const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false });
  const answered = once(sent, 'response').then(([response]) => response as IncomingMessage);
  return { sent, answered };
}

async function read(
  preview: { host: string; token: string },
  path?: string,
): Promise<{ status: number; text: string }> {
  const { sent, answered } = ask(preview, path);
  sent.end();
  const response = await answered;
  return { status: response.statusCode ?? 0, text: (await response.setEncoding('utf8').toArray()).join('') };
}

describe('a preview of a sandbox without network', () => {
  it('says that no program listens, then shows the program that does, also one on the loopback alone', async () => {
    const preview = await openPreview(8001);
    assert.deepEqual((await read(preview)).status, 502);
    const run = await service.api.run(sandboxId, NODE_SERVER, { language: 'javascript' });
    assert.equal(run.error, undefined);
    assert.deepEqual(await read(preview, '/a?b=c'), { status: 200, text: 'node says GET /a?b=c' });
  });

  it('says that the program at the port does not speak HTTP', async () => {
    const run = await service.api.run(sandboxId, NO_HTTP_SERVERS);
    assert.equal(run.error, undefined);
    for (const port of [8010, 8011, 8012]) {
      const { status, text } = await read(await openPreview(port));
      assert.deepEqual([status, /<h1>(.*)<\/h1>/.exec(text)?.[1]], [502, 'No HTTP response'], `${port}`);
    }
  });

  const carried = sameWithEachRuntime('the memory of the server, which other tests reach through each runtime');
  it('a preview of a sandbox without network carries 100 MB both ways in constant memory', carried, async () => {
    const run = await service.api.run(sandboxId, PYTHON_SERVER);
    assert.equal(run.error, undefined);
    const preview = await openPreview(8000);
    // Warm-up: takes the memory that streams of any length need.
    for (let warm = 0; warm < 4; warm++) await read(preview, `/${16 * MIB}`);
    const size = 100 * MIB;
    const before = residentBytes(service.pid('server'));
    let most = before;
    const down = ask(preview, `/${size}`);
    down.sent.end();
    let got = 0;
    for await (const chunk of await down.answered) {
      got += chunk.length;
      if (got % (10 * MIB) < chunk.length) most = Math.max(most, residentBytes(service.pid('server')));
    }
    assert.equal(got, size);

    const up = ask(preview, '/', 'POST', size);
    const chunk = Buffer.alloc(MIB, 3);
    const digest = createHash('sha256');
    for (let sent = 0; sent < size; sent += chunk.length) {
      digest.update(chunk);
      if (!up.sent.write(chunk)) await once(up.sent, 'drain');
      if (sent % (10 * MIB) === 0) most = Math.max(most, residentBytes(service.pid('server')));
    }
    up.sent.end();
    const answer = await up.answered;
    assert.equal((await answer.setEncoding('utf8').toArray()).join(''), digest.digest('hex'));
    assert.ok(most - before < size * 0.75, `the server grew by ${Math.round((most - before) / MIB)} MiB`);
  });

  it('a preview of a sandbox without network streams events as they happen, and a WebSocket both ways', async () => {
    const preview = await openPreview(8001);
    const events = ask(preview, '/events');
    events.sent.end();
    let text = '';
    for await (const chunk of await events.answered) {
      text += chunk;
      if (text.includes('data: 20\n')) break;
    }
    assert.ok(text.startsWith('data: 1\n\ndata: 2\n\n'));

    const { connect } = await import('node:net');
    const socket = connect(Number(new URL(service.url).port), '127.0.0.1');
    socket.write(
      `GET /ws HTTP/1.1\r\nHost: ${preview.host}\r\nX-Cloche-Preview-Token: ${preview.token}\r\n${SWITCH}\r\n`,
    );
    const [head] = await once(socket, 'data');
    // A load balancer may send the names of fields in lower case.
    assert.match(String(head), /^HTTP\/1\.1 101 .*Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=/is);
    socket.write('over and back');
    assert.equal(String((await once(socket, 'data'))[0]), 'over and back');
    const closed = once(socket, 'close');
    await service.api.delete(`/v1/previews/${preview.id}`);
    await closed;
    assert.equal((await read(preview)).status, 404);
  });

  it('a preview of a sandbox without network outlives a restart of the server', async () => {
    const preview = await openPreview(8001);
    await service.restart('server');
    assert.equal((await read(preview)).text, 'node says GET /');
  });
});
