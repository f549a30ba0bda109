/** A server in place of hostd that announces versions of the protocol, and counts what it is asked. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { AGENT_PROTOCOL_VERSION, HOSTD_PROTOCOL_VERSION, type LaunchSpec, ociRuntimeOf } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { LaunchError } from '../runtime-driver.ts';
import { HostdDriver } from './hostd-driver.ts';

const SPEC: LaunchSpec = {
  source: { kind: 'template', templateVersionId: 'tplv_1' },
  resources: { cpu: 1, memoryBytes: 2 ** 29, diskBytes: 2 ** 28, pids: 128 },
  network: { mode: 'deny-all' },
};
const INSTANCE = {
  ...{ sandboxId: 'sbx_1', generation: 1, templateVersionId: 'tplv_1' },
  ...{ agentSocketPath: '/x/agent.sock', startedAt: '2026-01-01T00:00:00Z' },
};
const OF_INSTANCE_1 = { sandboxId: 'sbx_1', generation: 1 };
const DISK = {
  ...{ ...OF_INSTANCE_1, templateVersionId: 'tplv_1' },
  ...{ diskBytes: 2 ** 28, bytes: 2 ** 20, keptAt: '2026-01-01T00:00:00Z' },
};
const USE = { ...OF_INSTANCE_1, cpuMs: 1, egressBytes: 2, ingressBytes: 3 };
const never = new AbortController().signal;

/** What the health of a peer says, and whether it stops. */
interface Peer {
  protocolVersion: number;
  agentProtocolVersion: number;
  isStopping?: boolean;
  freeze?: boolean;
  keepsDisks?: boolean;
}

/** What a peer answers about the disk of an instance, by its sandbox. */
const DISK_ERRORS: Readonly<Record<string, readonly [status: number, code: string]>> = {
  sbx_gone: [404, 'instance_not_found'],
  sbx_none: [404, 'disk_not_found'],
  sbx_used: [409, 'disk_in_use'],
  sbx_broken: [422, 'disk_broken'],
  sbx_early: [422, 'disk_unkeepable'],
};

async function openPeer(versions: { protocolVersion: number; agentProtocolVersion?: number }) {
  const folder = mkdtempSync(join(tmpdir(), 'hostd-'));
  const socketPath = join(folder, 'hostd.sock');
  const asked: string[] = [];
  const pool = { size: 0, ready: 0, hits: 0, misses: 0 };
  const peer: Peer = {
    agentProtocolVersion: AGENT_PROTOCOL_VERSION,
    ...versions,
  };
  const answer: RequestListener = (request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const health = {
      status: 'ready',
      installationId: 'x',
      ociRuntime: 'crun',
      isolation: ociRuntimeOf('crun').claims,
      pool,
      warnings: [],
      ...peer,
    };
    const error = DISK_ERRORS[request.url?.split('/')[2] ?? ''];
    if (request.url === '/health') response.end(JSON.stringify(health));
    else if (peer.isStopping)
      response.writeHead(503).end(JSON.stringify({ error: { code: 'stopping', message: 'hostd is stopping' } }));
    else if (request.url === '/instances') response.end(JSON.stringify({ instances: [INSTANCE] }));
    else if (error && !/\/(freeze|thaw)$/.test(request.url ?? ''))
      response.writeHead(error[0]).end(JSON.stringify({ error: { code: error[1], message: 'no' } }));
    else if (request.url?.startsWith('/parked/')) response.writeHead(204).end();
    else if (request.url === '/parked') response.end(JSON.stringify({ disks: [DISK] }));
    else if (request.url === '/instances/sbx_1/1/keep') response.end(JSON.stringify(DISK));
    else if (request.url === '/instances/sbx_1/1/park') response.end(JSON.stringify({ disk: DISK, use: USE }));
    else if (request.method === 'DELETE') response.end('{}');
    else if (request.method === 'PUT')
      response.end(JSON.stringify({ ...INSTANCE, agentAnswers: true, kernelReady: false }));
    else if (request.url?.endsWith('/kernels')) response.writeHead(204).end();
    else if (request.url === '/instances/sbx_1/1/freeze' || request.url === '/instances/sbx_1/1/thaw')
      response.end('{}');
    else if (request.url === '/instances/sbx_slow/1/freeze')
      response.writeHead(503).end(JSON.stringify({ error: { code: 'freeze_failed', message: 'it goes on' } }));
    else if (request.url?.endsWith('/freeze') || request.url?.endsWith('/thaw'))
      response.writeHead(404).end(JSON.stringify({ error: { code: 'instance_not_found', message: 'not here' } }));
    else response.writeHead(404).end(JSON.stringify({ error: { code: 'bad_request', message: 'no such operation' } }));
  };
  const server = createServer(answer).listen(socketPath);
  await once(server, 'listening');
  const driver = new HostdDriver(socketPath);
  return {
    driver,
    asked,
    peer,
    /** Ends the connections, as a hostd that ends does. */
    endConnections: () => server.closeAllConnections(),
    async [Symbol.asyncDispose]() {
      await driver.close();
      server.closeAllConnections();
      server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

describe('a driver', () => {
  it('a driver asks hostd for its version once, and works with that of the server and the one before', async () => {
    for (const protocolVersion of [HOSTD_PROTOCOL_VERSION, HOSTD_PROTOCOL_VERSION - 1]) {
      await using hostd = await openPeer({ protocolVersion });
      await hostd.driver.launch('sbx_1', 1, SPEC, never);
      await hostd.driver.stop('sbx_1', 1);
      assert.deepEqual(hostd.asked, ['GET /health', 'PUT /instances/sbx_1/1', 'DELETE /instances/sbx_1/1']);
    }
  });

  it('a driver freezes and thaws instances of a hostd that says it can, and names why one goes on', async () => {
    await using hostd = await openPeer({ protocolVersion: HOSTD_PROTOCOL_VERSION });
    await hostd.driver.list();
    const { freezing: early } = hostd.driver;
    assert.equal(early, undefined, 'a hostd of an earlier release');
    hostd.peer.freeze = true;
    await hostd.driver.check(never);
    const { freezing } = hostd.driver;
    assert.ok(freezing);
    await freezing.freeze({ sandboxId: 'sbx_1', generation: 1 }, never);
    await freezing.thaw({ sandboxId: 'sbx_1', generation: 1 }, never);
    const asked = ['freeze', 'thaw'].map((action) => `POST /instances/sbx_1/1/${action}`);
    assert.deepEqual(hostd.asked.slice(-2), asked);
    const slow = { sandboxId: 'sbx_slow', generation: 1 };
    await assert.rejects(freezing.freeze(slow, never), { name: 'LaunchError', kind: 'failed' });
    for (const act of ['freeze', 'thaw'] as const) {
      const gone = { sandboxId: 'sbx_gone', generation: 1 };
      await assert.rejects(freezing[act](gone, never), { name: 'AgentError', kind: 'gone' });
    }
  });

  it('a driver keeps disks of a hostd that says it can, launches from them, and names why one cannot be had', async () => {
    await using hostd = await openPeer({ protocolVersion: HOSTD_PROTOCOL_VERSION });
    const { driver } = hostd;
    const parked = { ...SPEC, source: { ...SPEC.source, kind: 'parked', generation: 1 } } as const;
    await driver.list();
    const { parking: early } = driver;
    assert.equal(early, undefined, 'a hostd of an earlier release');
    await assert.rejects(driver.launch('sbx_1', 2, parked, never), { name: 'ParkingError', kind: 'unsupported' });
    assert.ok(!hostd.asked.some((each) => each.startsWith('PUT')), 'it is not asked');
    hostd.peer.keepsDisks = true;
    await driver.check(never);
    const { parking } = driver;
    assert.ok(parking);
    assert.deepEqual(await parking.keep(OF_INSTANCE_1, never), DISK);
    assert.deepEqual(await parking.park(OF_INSTANCE_1, never), { disk: DISK, use: USE });
    assert.deepEqual(await parking.parked(never), [DISK]);
    await parking.removeParked(OF_INSTANCE_1, never);
    assert.equal((await driver.launch('sbx_1', 2, parked, never)).instance.sandboxId, 'sbx_1');
    const kinds = { sbx_none: 'not_found', sbx_used: 'in_use', sbx_broken: 'broken', sbx_early: 'unsupported' };
    for (const [sandboxId, kind] of Object.entries(kinds)) {
      await assert.rejects(driver.launch(sandboxId, 2, parked, never), { name: 'ParkingError', kind });
      await assert.rejects(parking.park({ sandboxId, generation: 1 }, never), { name: 'ParkingError', kind });
    }
    for (const act of ['keep', 'park'] as const)
      await assert.rejects(parking[act]({ sandboxId: 'sbx_gone', generation: 1 }, never), {
        name: 'AgentError',
        kind: 'gone',
      });
  });

  it('a driver tells hostd of a sandbox that computes at once', async () => {
    await using hostd = await openPeer({ protocolVersion: HOSTD_PROTOCOL_VERSION });
    await hostd.driver.launch('sbx_1', 1, SPEC, never, { expectsImmediateLoad: true });
    assert.deepEqual(hostd.asked, ['GET /health', 'PUT /instances/sbx_1/1?starts=busy']);
  });

  it('a driver takes a hostd that stops for one that does not answer, so that a launch waits for the next one', async () => {
    await using hostd = await openPeer({ protocolVersion: HOSTD_PROTOCOL_VERSION });
    hostd.peer.isStopping = true;
    const awaited = { name: 'LaunchError', kind: 'unreachable' };
    await assert.rejects(hostd.driver.launch('sbx_1', 1, SPEC, never), awaited);
    hostd.peer.isStopping = false;
    assert.equal((await hostd.driver.launch('sbx_1', 1, SPEC, never)).instance.sandboxId, 'sbx_1');
  });

  it('a driver says so when hostd does not answer in time', async () => {
    await using hostd = await openPeer({ protocolVersion: HOSTD_PROTOCOL_VERSION });
    const late = AbortSignal.timeout(1);
    await once(late, 'abort');
    const awaited = { name: 'LaunchError', kind: 'unreachable', message: 'hostd did not answer in time' };
    await assert.rejects(hostd.driver.launch('sbx_1', 1, SPEC, late), awaited);
  });

  for (const difference of [1, -2]) {
    it(`a driver asks nothing of a hostd whose version differs by ${difference}`, async () => {
      await using hostd = await openPeer({ protocolVersion: HOSTD_PROTOCOL_VERSION + difference });
      const refused = { name: 'LaunchError', kind: 'incompatible' };
      await assert.rejects(hostd.driver.launch('sbx_1', 1, SPEC, never), refused);
      await assert.rejects(hostd.driver.stop('sbx_1', 1), refused);
      await assert.rejects(hostd.driver.check(never), refused);
      const [listing] = await hostd.driver.list();
      assert.ok(listing && 'unknown' in listing);
      assert.deepEqual(new Set(hostd.asked), new Set(['GET /health']));
    });
  }

  it('a driver launches nothing with agents that the server cannot work with, but stops and lists instances', async () => {
    const agentProtocolVersion = AGENT_PROTOCOL_VERSION + 1;
    await using hostd = await openPeer({ protocolVersion: HOSTD_PROTOCOL_VERSION, agentProtocolVersion });
    const refused = { name: 'LaunchError', kind: 'incompatible' };
    await assert.rejects(hostd.driver.launch('sbx_1', 1, SPEC, never), refused);
    assert.deepEqual(hostd.asked, ['GET /health']);
    await hostd.driver.stop('sbx_1', 1);
    const [listing] = await hostd.driver.list();
    assert.ok(listing && 'instances' in listing && listing.instances.length === 1);
  });

  it('a driver asks again for the version when its connections have ended', async () => {
    await using hostd = await openPeer({ protocolVersion: HOSTD_PROTOCOL_VERSION });
    const { instance } = await hostd.driver.launch('sbx_1', 1, SPEC, never);
    hostd.peer.protocolVersion = HOSTD_PROTOCOL_VERSION + 1;
    hostd.endConnections();
    const isRefused = async () => {
      const fault: unknown = await hostd.driver.find(instance, never).catch((error) => error);
      return fault instanceof LaunchError && fault.kind === 'incompatible';
    };
    await eventually(isRefused, { because: 'the driver has seen the end of its connections' });
  });

  it('a driver asks hostd for a kernel of a context only if the agent does not have it open', async () => {
    await using hostd = await openPeer({ protocolVersion: HOSTD_PROTOCOL_VERSION });
    const opened: unknown[] = [];
    const agent = createServer(async (request, response) => {
      const sent = (await request.toArray()).join('');
      if (request.url === '/health')
        response.end(JSON.stringify({ status: 'ready', protocolVersion: AGENT_PROTOCOL_VERSION }));
      else if (request.url === '/contexts') {
        response.end(JSON.stringify({ contexts: [{ contextId: 'cctx_open', language: 'python', cwd: '/' }] }));
      } else {
        opened.push([request.url, 'kernelWaitMs' in JSON.parse(sent)]);
        response.end(JSON.stringify({ contextId: 'x', language: 'python', cwd: '/' }));
      }
    });
    const folder = mkdtempSync(join(tmpdir(), 'agent-'));
    const unix = join(folder, 'agent.sock');
    await once(agent.listen(unix), 'listening');
    try {
      const stored = {
        sandboxId: 'sbx_1',
        generation: 1,
        templateVersionId: 'tplv_1',
        startedAt: '2026-01-01T00:00:00Z',
      };
      const client = await hostd.driver.connect({ ...stored, place: { unix } }, never);
      const request = { language: 'python', cwd: '/', timeoutMs: 1000 } as const;
      for (const id of ['cctx_open', 'cctx_new']) await client.openContext(id, request, never);
      assert.deepEqual(opened, [
        ['/contexts/cctx_open', false],
        ['/contexts/cctx_new', true],
      ]);
      const kernels = () => hostd.asked.filter((asked) => asked.endsWith('/kernels')).length;
      await eventually(() => kernels() === 1, { because: 'hostd is asked for a kernel' });
      await client.close();
      assert.equal(kernels(), 1);
    } finally {
      agent.closeAllConnections();
      agent.close();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
