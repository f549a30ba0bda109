import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import { afterEach, beforeEach, describe, it, mock } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { RUN_KEEP_ALIVE_MS, RUNS_ACCEPTED, RUNS_ACCEPTED_KEPT } from '@cloche/protocol';
import type { LineMemory } from './line-memory.ts';
import { RunConnections } from './run-connections.ts';

const MEMORY = { hold: () => undefined, release: () => undefined } as unknown as LineMemory;
const DONE = '{"type":"done"}';

describe('the connections for runs of an agent', () => {
  let agent: Duplex;
  let connections: RunConnections;
  beforeEach(() => {
    mock.timers.enable({ apis: ['setInterval'] });
    connections = new RunConnections(() => {
      const [near, far] = duplexPair();
      agent = far;
      // Sound: a connection uses a socket as a stream.
      return near as unknown as Socket;
    });
  });

  afterEach(() => mock.timers.reset());

  async function start(response: string) {
    const connection = connections.acquire();
    connection.start('{}');
    const [request] = await once(agent, 'data');
    agent.write(`${response}"accepted"\n`);
    assert.equal(await connection.nextLine(MEMORY), '"accepted"');
    return { connection, request: String(request) };
  }

  async function finish(connection: Awaited<ReturnType<typeof start>>['connection']): Promise<void> {
    agent.write(`${DONE}\n`);
    assert.equal(await connection.nextLine(MEMORY), DONE);
    connections.release(connection, true);
  }

  it('the connections for runs of an agent tell the agent that the server lives, while there is a run', async () => {
    const { connection, request } = await start(RUNS_ACCEPTED_KEPT);
    assert.match(request, /\r\ncloche-keep-alive: runs\r\n\r\n\{\}\n$/);
    for (let beat = 0; beat < 3; beat += 1) {
      const told = once(agent, 'data');
      mock.timers.tick(RUN_KEEP_ALIVE_MS);
      assert.equal(String(await told), '\n');
      // The next one is sent only if this one has been.
      await nextTurn();
    }
    await finish(connection);
    const sent: string[] = [];
    agent.on('data', (chunk) => sent.push(String(chunk)));
    mock.timers.tick(10 * RUN_KEEP_ALIVE_MS);
    const again = connections.acquire();
    assert.equal(again, connection);
    again.start('{"n":2}');
    await nextTurn();
    mock.timers.tick(RUN_KEEP_ALIVE_MS);
    await finish(again);
    assert.equal(sent.join(''), '{"n":2}\n\n');
  });

  it('the connections for runs of an agent send nothing during a run to an agent of an earlier release', async () => {
    const { connection } = await start(RUNS_ACCEPTED);
    const sent: string[] = [];
    agent.on('data', (chunk) => sent.push(String(chunk)));
    mock.timers.tick(10 * RUN_KEEP_ALIVE_MS);
    await finish(connection);
    assert.deepEqual(sent, []);
  });

  for (const response of [RUNS_ACCEPTED, RUNS_ACCEPTED_KEPT]) {
    it(`accept a response in any pieces: ${JSON.stringify(response)}`, async () => {
      const connection = connections.acquire();
      connection.start('{}');
      for (const character of `${response}${DONE}\n`) agent.write(character);
      assert.equal(await connection.nextLine(MEMORY), DONE);
    });
  }

  it('the connections for runs of an agent are closed but for one when no run has needed them for a minute', async () => {
    const started = [];
    const agents: Duplex[] = [];
    for (let each = 0; each < 20; each += 1) {
      started.push(await start(RUNS_ACCEPTED_KEPT));
      agents.push(agent);
    }
    for (const [index, { connection }] of started.entries()) {
      agent = agents[index] ?? assert.fail();
      await finish(connection);
    }
    const open = () => agents.filter((each) => !each.destroyed && !each.readableEnded).length;
    for (const each of agents) each.resume();
    const minute = async () => {
      for (let beat = 0; beat < 20; beat += 1) mock.timers.tick(RUN_KEEP_ALIVE_MS);
      await nextTurn();
      await nextTurn();
    };
    // Three at a time go on.
    await minute();
    const busy = [connections.acquire(), connections.acquire(), connections.acquire()];
    for (const connection of busy) connections.release(connection, true);
    await minute();
    assert.equal(open(), 3);
    await minute();
    assert.equal(open(), 1);
    await minute();
    assert.equal(open(), 1);
    const kept = connections.acquire();
    assert.ok(started.some(({ connection }) => connection === kept));
  });

  it('the connections for runs of an agent refuse another response', async () => {
    const connection = connections.acquire();
    connection.start('{}');
    agent.write(RUNS_ACCEPTED.replace('runs', 'rums'));
    await assert.rejects(connection.nextLine(MEMORY), { kind: 'misbehaved' });
  });
});
