/** Tests what the load balancer does for several servers of one host. The stage `e2e-servers` tests what the servers do. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { runPaths } from '@cloche/layout';
import { Cloche } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';
import { execa } from 'execa';
import { type TestPostgres, testPostgres } from '../support/postgres.ts';
import { type OwnService, testService } from '../support/service.ts';

const SERVERS = ['1', '2', '3'];

const ECHO_FIELDS = `
import http.server, json, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_): pass
    def do_GET(self):
        body = json.dumps(self.headers.items()).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8000), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()`;

let postgres: TestPostgres;
let service: OwnService;
let sandboxId: `sbx_${string}`;
before(async () => {
  postgres = await testPostgres();
  const env = { CLOCHE_DATABASE_URL: await postgres.createDatabase('several') };
  service = await testService(env, undefined, { servers: SERVERS.length });
  sandboxId = (await service.api.readySandbox()).id as `sbx_${string}`;
});
after(async () => {
  await service?.close();
  await postgres?.close();
});

const logOf = (server: string) => readFileSync(join(service.dataDir, 'logs', `server-${server}.log`), 'utf8');
const sdk = () => new Cloche({ url: service.url, apiKey: service.apiKey });

describe('the load balancer', () => {
  it('the load balancer gives each server its turn, also for requests of one connection', async () => {
    for (let count = 0; count < 2 * SERVERS.length; count++) {
      assert.equal((await service.api.run(sandboxId, '40 + 2')).outputs[0]?.value, '42');
    }
    for (const server of SERVERS) {
      await eventually(() => logOf(server).includes('"operation":"runCode"'));
    }
  });

  it('the load balancer passes events of a stream as they are printed, before the run ends', async () => {
    const code =
      "import pathlib, time\nprint('first', flush=True)\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)";
    const events = service.api.stream(sandboxId, code);
    const first = await events.next();
    assert.equal(first.value?.type, 'stdout');
    const { files } = await sdk().sandboxes.get(sandboxId);
    await files.write('go', '');
    let last = first.value;
    for await (const event of events) last = event;
    assert.equal(last?.type, 'complete');
  });

  it('the load balancer passes uploads and downloads unchanged, larger than its memory for them', async () => {
    const bytes = Buffer.alloc(24 * 2 ** 20, 'cloche ');
    const { files } = await sdk().sandboxes.get(sandboxId);
    await files.write('large', bytes);
    const run = await service.api.run(
      sandboxId,
      "import hashlib; hashlib.sha256(open('large','rb').read()).hexdigest()",
    );
    const digest = createHash('sha256').update(bytes).digest('hex');
    assert.equal(run.outputs[0]?.value, `'${digest}'`);
    assert.equal(
      createHash('sha256')
        .update(await files.read('large'))
        .digest('hex'),
      digest,
    );
  });

  it('the load balancer passes terminals, which are WebSockets', async () => {
    const { pty } = await sdk().sandboxes.get(sandboxId);
    let text = '';
    const terminal = await pty.open({ onData: (data) => (text += Buffer.from(data).toString()) });
    terminal.write('echo $((6 * 7)) exits; exit 7\n');
    assert.equal(await terminal.exited, 7);
    assert.match(text, /42 exits/);
  });

  it('the load balancer tells the servers of a client that has gone, which ends its run', async () => {
    const aborting = new AbortController();
    const sleeping = { signal: aborting.signal, timeoutMs: 600_000 };
    await service.api.openStream(sandboxId, 'import time; time.sleep(600)', sleeping);
    aborting.abort();
    // Runs of a context wait for each other, and this one has a tenth of the time of the other.
    const next = await service.api.run(sandboxId, '1', { timeoutMs: 60_000 });
    assert.deepEqual([next.error, next.outputs[0]?.value], [undefined, '1']);
  });

  it('the load balancer keeps the address of the client, whatever the client says about it', async () => {
    const claimed = { 'x-forwarded-for': '203.0.113.9' };
    const made = await service.api.request('POST', '/v1/sandboxes', { body: {}, key: 'auto', headers: claimed });
    assert.equal(made.status, 201);
    const events = await service.api.get('/v1/audit-events?action=sandbox.created&limit=10');
    const ips = events.body.data.map(({ ip }: { ip?: string }) => ip);
    assert.deepEqual([...new Set(ips)], ['127.0.0.1']);
    await service.api.delete(`/v1/sandboxes/${made.body.sandbox.id}`);
  });

  it('the load balancer finds previews by their host, whose apps see the address once', async () => {
    await service.api.run(sandboxId, ECHO_FIELDS);
    const { body } = await service.api.post(`/v1/sandboxes/${sandboxId}/previews`, { port: 8000 });
    const { hostname, host } = new URL(body.preview.url);
    assert.equal(new URL(body.preview.url).port, new URL(service.url).port);
    assert.ok(hostname.endsWith('.localhost'));
    const token = body.preview.accessToken;
    const headers = { host, 'x-cloche-preview-token': token, 'x-forwarded-for': '203.0.113.9' };
    const [response] = await once(request(service.url, { headers }).end(), 'response');
    const fields = new Map<string, string>(JSON.parse((await response.setEncoding('utf8').toArray()).join('')));
    assert.equal(fields.get('X-Forwarded-For'), '203.0.113.9, 127.0.0.1');
  });

  it('the load balancer has the user of the servers and no privileges, and the sockets behind it are only for that user', () => {
    const status = readFileSync(`/proc/${service.pid('balancer')}/status`, 'utf8');
    const ofServer = readFileSync(`/proc/${service.pid('server-1')}/status`, 'utf8');
    const uids = (text: string) => /^Uid:\s+(.*)$/m.exec(text)?.[1];
    assert.equal(uids(status), uids(ofServer));
    assert.notEqual(uids(status)?.[0], '0');
    for (const set of ['CapEff', 'CapBnd', 'CapAmb']) assert.match(status, new RegExp(`^${set}:\\s+0+$`, 'm'));
    assert.match(status, /^NoNewPrivs:\s+1$/m);
    for (const server of SERVERS) {
      assert.equal(statSync(runPaths(service.runDir, server).apiSocket).mode & 0o777, 0o600);
    }
    assert.equal(statSync(runPaths(service.runDir).operatorSocket).mode & 0o777, 0o600);
  });

  it('the load balancer sends requests to the other servers while one is dead, and answers as the API does', async () => {
    await service.kill('server-2');
    const answers = [];
    for (let count = 0; count < 3 * SERVERS.length; count++) answers.push(await service.api.get('/v1/sandboxes'));
    // A request that reached no server is sent to another one.
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
    assert.match(await service.createOrg('while-one-is-dead'), /^org_/);
    await service.restart('server-2');
  });

  it('the load balancer answers `unavailable` while no server is ready, and serves as soon as one is', async () => {
    for (const server of SERVERS) await service.kill(`server-${server}`);
    const refused = async () => (await service.api.get('/v1/sandboxes')).status === 503;
    await eventually(refused);
    const { body, headers } = await service.api.get('/v1/sandboxes');
    assert.equal(body.error.code, 'unavailable');
    assert.equal(body.error.requestId, headers.get('x-request-id'));
    assert.match(body.error.requestId, /^req_[0-9a-f]{32}$/);
    await service.restart('server-3');
    const serves = async () => (await service.api.get('/v1/sandboxes')).status === 200;
    await eventually(serves);
    for (const server of ['1', '2'] as const) await service.restart(`server-${server}`);
  });
});

describe('npm start with several servers', () => {
  it('npm start with several servers is refused without PostgreSQL, before anything is installed, with the reason', async () => {
    const { exitCode, stderr } = await execa(
      process.execPath,
      ['packages/host/setup/src/main.ts', 'start', '--servers', '3'],
      {
        env: { CLOCHE_CONFIG_FILE: '/dev/null', CLOCHE_DATA_DIR: '/nowhere' },
        reject: false,
      },
    );
    assert.equal(exitCode, 1);
    assert.match(stderr, /Several servers need one PostgreSQL database, because a SQLite database has one server\./);
    assert.match(stderr, /Set CLOCHE_DATABASE_URL to postgres:/);
  });
});
