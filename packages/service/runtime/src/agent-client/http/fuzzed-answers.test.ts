/** Fuzzes the responses of an agent and of hostd: valid responses with random changes, headers included. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import {
  AGENT_PROTOCOL_VERSION,
  AgentRunEvent,
  HOSTD_PROTOCOL_VERSION,
  ociRuntimeOf,
  RUNS_ACCEPTED,
} from '@cloche/protocol';
import { fuzz, mutateBytes, mutateJson, type Random } from '@cloche/testkit/fuzz';
import { Compile } from 'typebox/compile';
import { HostdDriver } from '../../driver/hostd/hostd-driver.ts';
import { AgentError, LaunchError } from '../../driver/runtime-driver.ts';
import { dialer } from '../agent-endpoint.ts';
import { AgentHttpClient } from './agent-http-client.ts';

const runEvent = Compile(AgentRunEvent);
const ATTEMPTS = 400;
/** Time limit of each request, for a client that waits for more data than was sent. */
const PATIENCE_MS = 100;

const RUN = {
  runId: 'run_1',
  code: 'x',
  timeoutMs: 1000,
  limits: { stdoutBytes: 1, stderrBytes: 1, outputBytes: 1, outputsBytes: 1 },
};
const EVENTS = [
  { type: 'stdout', runId: 'run_1', data: 'héllo' },
  {
    type: 'output',
    runId: 'run_1',
    data: { kind: 'inline', format: 'text', mimeType: 'text/plain', value: '1', role: 'result', bundle: 0 },
  },
  { type: 'error', runId: 'run_1', data: { name: 'E', message: 'm', traceback: ['x'] } },
  { type: 'done', runId: 'run_1', data: { executionCount: 1, durationMs: 2, truncated: { stdout: 3 } } },
];
const INSTANCES = {
  instances: [
    { sandboxId: 'sbx_1', generation: 1, templateVersionId: 'tplv_1', agentSocketPath: '/x', startedAt: '2026-01-01' },
  ],
};

const HEALTH = JSON.stringify({
  ...{ status: 'ready', protocolVersion: HOSTD_PROTOCOL_VERSION, installationId: 'x', ociRuntime: 'crun' },
  isolation: ociRuntimeOf('crun').claims,
  ...{ agentProtocolVersion: AGENT_PROTOCOL_VERSION, warnings: [] },
  pool: { size: 0, ready: 0, hits: 0, misses: 0 },
});

/**
 * Starts a server that sends the configured bytes to each request and then closes the connection. It answers the
 * health check of hostd as hostd does.
 */
async function openPeer() {
  const folder = mkdtempSync(join(tmpdir(), 'fuzz-'));
  const socketPath = join(folder, 'peer.sock');
  let answer = Buffer.alloc(0);
  const server = createServer((socket) => {
    socket
      .on('error', () => undefined)
      .on('data', (bytes) => {
        if (bytes.includes('GET /health'))
          socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${HEALTH.length}\r\n\r\n${HEALTH}`);
        else socket.end(answer);
      });
  });
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  return {
    socketPath,
    set: (bytes: Buffer) => {
      answer = Buffer.from(bytes);
    },
    [Symbol.asyncDispose]: async () => {
      await new Promise((resolve) => server.close(resolve));
      rmSync(folder, { recursive: true });
    },
  };
}

/** Returns a response with a random change, half of the time in its JSON and otherwise in its bytes. */
function changedAnswer(random: Random, lines: readonly object[], head: (body: string) => string): Buffer {
  const inJson = random.chance(0.5);
  const texts = lines.map((line) => JSON.stringify(inJson && random.chance(0.5) ? mutateJson(random, line) : line));
  const body = texts.join('\n');
  const whole = Buffer.from(head(body) + body);
  return inJson ? whole : mutateBytes(random, whole);
}

function jsonHead(body: string): string {
  const length = Buffer.byteLength(body);
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\nconnection: close\r\n\r\n`;
}

describe('whatever an agent answers', () => {
  it('a run gets events of the protocol, and an end that is one of the known ones', async () => {
    await using peer = await openPeer();
    await fuzz(ATTEMPTS, async (random) => {
      peer.set(changedAnswer(random, EVENTS, () => RUNS_ACCEPTED));
      const client = new AgentHttpClient(dialer({ unix: peer.socketPath }));
      const signal = AbortSignal.timeout(PATIENCE_MS);
      try {
        for await (const event of client.run('cctx_1', RUN, signal)) assert.ok(runEvent.Check(event));
      } catch (error) {
        assert.ok(error instanceof AgentError || error === signal.reason, String(error));
      } finally {
        await client.close();
      }
    });
  });

  it('a context is opened as the answer says, or a fault is named', async () => {
    await using peer = await openPeer();
    await fuzz(ATTEMPTS, async (random) => {
      const valid = random.pick([
        { contextId: 'c', language: 'python', cwd: '/' },
        { error: { code: 'x', message: 'y' } },
      ]);
      peer.set(changedAnswer(random, [valid], jsonHead));
      const client = new AgentHttpClient(dialer({ unix: peer.socketPath }));
      const signal = AbortSignal.timeout(PATIENCE_MS);
      try {
        const { cwd, language } = await client.openContext('c', { language: 'python', cwd: '/', timeoutMs: 1 }, signal);
        assert.ok(typeof cwd === 'string' && ['python', 'javascript', 'typescript'].includes(language));
      } catch (error) {
        assert.ok(error instanceof AgentError || error === signal.reason, String(error));
      } finally {
        await client.close();
      }
    });
  });
});

describe('whatever hostd answers', () => {
  it('a list holds instances, or a fault is named', async () => {
    await using peer = await openPeer();
    let lists = 0;
    await fuzz(ATTEMPTS, async (random) => {
      peer.set(changedAnswer(random, [INSTANCES], jsonHead));
      const driver = new HostdDriver(peer.socketPath);
      try {
        const [listing] = await driver.list();
        assert.ok(listing);
        if ('unknown' in listing) assert.ok(listing.unknown instanceof LaunchError, String(listing.unknown));
        else {
          for (const { sandboxId, generation } of listing.instances) {
            assert.ok(typeof sandboxId === 'string' && Number.isInteger(generation));
          }
          lists += 1;
        }
      } finally {
        await driver.close();
      }
    });
    assert.ok(lists > 0, 'some answers are lists');
  });
});
