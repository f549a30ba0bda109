/** Tests E2B's protocol and Jupyter with three servers: what one server has in memory must not depend on which one answers. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { runPaths } from '@cloche/layout';
import { eventually } from '@cloche/testkit/eventually';
import { Sandbox } from 'e2b';
import { type E2bOptions, e2bOptions, LASTING } from '../support/e2b-options.ts';
import { type TestPostgres, testPostgres } from '../support/postgres.ts';
import { type OwnService, testService } from '../support/service.ts';

const SERVERS = ['1', '2', '3'];
/** Requests that follow each other, enough that each server would have its turn twice. */
const TURNS = 2 * SERVERS.length;

let postgres: TestPostgres;
let service: OwnService;
let options: E2bOptions;
let sandbox: Sandbox;
before(async () => {
  postgres = await testPostgres();
  const CLOCHE_DATABASE_URL = await postgres.createDatabase('e2b');
  const env = { CLOCHE_DATABASE_URL, CLOCHE_E2B: 'on', CLOCHE_JUPYTER: 'on' };
  service = await testService(env, undefined, { servers: SERVERS.length });
  options = e2bOptions(service);
  sandbox = await Sandbox.create({ ...options, ...LASTING, network: { allowPublicTraffic: false } });
});
after(async () => {
  await service?.close();
  await postgres?.close();
});

/** Headers of requests to a sandbox, as E2B's clients send them. */
function headersOf(port: number) {
  const { sandboxId, trafficAccessToken = '' } = sandbox;
  return { 'e2b-sandbox-id': sandboxId, 'e2b-sandbox-port': String(port), 'x-access-token': trafficAccessToken };
}

/** Runs a cell at one server, not by way of the load balancer, and returns what it printed. */
async function runAt(server: string, language: string, code: string): Promise<string> {
  const socketPath = runPaths(service.runDir, server).apiSocket;
  const headers = { ...headersOf(49_999), 'content-type': 'application/json' };
  const sent = request({ socketPath, path: '/e2b-box/execute', method: 'POST', headers, agent: false });
  sent.end(JSON.stringify({ code, language }));
  const [response] = await once(sent, 'response');
  const lines = (await text(response))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  return lines
    .flatMap((line) => (line.type === 'stdout' ? [line.text] : []))
    .join('')
    .trim();
}

/** Calls E2B's service for files by way of the load balancer. */
async function files(method: string, body: object): Promise<Record<string, unknown>> {
  const response = await fetch(`${options.sandboxUrl}/filesystem.Filesystem/${method}`, {
    method: 'POST',
    headers: { ...headersOf(49_983), 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = await response.text();
  assert.equal(response.status, 200, `${method}: ${answer}`);
  return JSON.parse(answer);
}

describe('a default context of E2B', () => {
  const LANGUAGES = {
    python: ['import os; os.makedirs("/tmp/python"); os.chdir("/tmp/python")', 'import os; print(os.getcwd())'],
    javascript: ['process.chdir("/tmp"); void 0', 'console.log(process.cwd())'],
    typescript: ['process.chdir("/tmp" as string); void 0', 'console.log(process.cwd() as string)'],
  } as const;

  for (const [language, [move, tell]] of Object.entries(LANGUAGES)) {
    it(`a default context of E2B keeps the directory that its code has entered, whichever server runs the next cell: ${language}`, async () => {
      assert.equal(await runAt('1', language, tell), '/home/user');
      await runAt('1', language, move);
      const told = [];
      for (const server of SERVERS) told.push(await runAt(server, language, tell));
      assert.deepEqual([...new Set(told)], [language === 'python' ? '/tmp/python' : '/tmp']);
    });
  }
});

describe('the load balancer', () => {
  it('the load balancer passes each poll of a watcher to the server that has it', async () => {
    const { watcherId } = await files('CreateWatcher', { path: '/home/user' });
    const seen = new Set<unknown>();
    for (let count = 0; count < TURNS; count++) {
      await sandbox.files.write(`watched-${count}`, 'x');
      await eventually(async () => {
        const { events = [] } = await files('GetWatcherEvents', { watcherId });
        for (const { name } of events as { name: string }[]) seen.add(name);
        return seen.has(`watched-${count}`);
      });
    }
    await files('RemoveWatcher', { watcherId });
  });

  it('the load balancer passes a signed URL to a server that knows the token', async () => {
    // No request but the creation has told a server the token.
    const unused = await Sandbox.create({ ...options, ...LASTING });
    const url = await unused.downloadUrl('/etc/hostname');
    for (let count = 0; count < TURNS; count++) assert.equal((await fetch(url)).status, 200);
    await unused.kill();
  });

  it('the load balancer opens one preview for a port that the client names', async () => {
    const { hostname, port } = new URL(service.url);
    const headers = { host: sandbox.getHost(3000), 'e2b-traffic-access-token': sandbox.trafficAccessToken ?? '' };
    for (let count = 0; count < TURNS; count++) {
      const [response] = await once(request({ hostname, port, headers, agent: false }).end(), 'response');
      // No program listens at the port.
      assert.equal(response.statusCode, 502, await text(response));
    }
    const { body } = await service.api.get(`/v1/sandboxes/${sandbox.sandboxId}/previews`);
    assert.equal(body.data.length, 1);
  });

  it('the load balancer passes the clients of a kernel of Jupyter to one server, and names of sessions to one', async () => {
    const jupyter = `${service.url}/jupyter/api`;
    const headers = { authorization: `token ${service.apiKey}` };
    const get = async (path: string) =>
      (await (await fetch(jupyter + path, { headers })).json()) as { connections?: number; path?: string };
    const body = JSON.stringify({ path: 'one.ipynb', name: 'one', type: 'notebook', kernel: { name: 'python3' } });
    const json = { ...headers, 'content-type': 'application/json' };
    const created = await fetch(`${jupyter}/sessions`, { method: 'POST', headers: json, body });
    const { id, kernel } = (await created.json()) as { id: string; kernel: { id: string } };
    const channels = `${jupyter.replace('http', 'ws')}/kernels/${kernel.id}/channels`;
    const socket = new WebSocket(`${channels}?token=${service.apiKey}&session_id=one`);
    const closed = once(socket, 'close');
    try {
      await once(socket, 'open');
      for (let count = 0; count < TURNS; count++) {
        assert.equal((await get(`/kernels/${kernel.id}`)).connections, 1);
        assert.equal((await get(`/sessions/${id}`)).path, 'one.ipynb');
      }
      const ended = await fetch(`${jupyter}/sessions/${id}`, { method: 'DELETE', headers });
      assert.equal(ended.status, 204);
      await closed;
    } finally {
      socket.close();
    }
  });
});
