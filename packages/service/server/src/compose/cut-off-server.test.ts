/** A server whose connections to the database stand still, beside another one. It takes as long as a lease. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import type { ApiAnswer } from '../../testing/call-api.ts';
import { SOCKETS } from '../../testing/postgres/postgres-server.ts';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { type Mechanism, runRequest } from '../../testing/simulation/mechanisms.ts';
import { replace } from '../../testing/simulation/replace.ts';
import { StallingProxy } from '../../testing/stalling-proxy.ts';
import { WholeServers } from '../../testing/whole-servers.ts';
import { Fence } from '../platform/base/fence.ts';

const PATIENCE_MS = 120_000;
const IN_PROGRESS = 'idempotency_request_in_progress';
/** The server that is not cut off. */
const OTHER = 0;
const WITHOUT_CLAIMS: ReadonlySet<Mechanism> = new Set(['claim of a run']);

/** Starts a server that reaches the database by way of `proxy`, and returns its index. */
function startBehind(proxy: StallingProxy, servers: WholeServers): Promise<number> {
  return servers.start(servers.databaseUrl.replace(/host=.*$/, `host=${encodeURIComponent(proxy.folder)}`));
}

/** A request for a run that does not end by itself, in a sandbox of its own. Two servers get it with the same key. */
class RepeatedRun {
  readonly sandboxId: string;
  readonly first: Promise<ApiAnswer>;
  /** Each execution of the code, and whether the first server had answered when it began. */
  readonly executions: { claim: number; isAnswered: boolean }[] = [];
  readonly #servers: WholeServers;
  #isAnswered = false;

  private constructor(servers: WholeServers, sandboxId: string, server: number) {
    this.#servers = servers;
    this.sandboxId = sandboxId;
    this.#agent.onExecution = ({ claim }) => this.executions.push({ claim, isAnswered: this.#isAnswered });
    this.first = this.send(server).finally(() => {
      this.#isAnswered = true;
    });
  }

  static async begin(servers: WholeServers, server: number): Promise<RepeatedRun> {
    const run = new RepeatedRun(servers, await servers.readySandbox(), server);
    await eventually(() => run.active === 1, { because: 'the run has begun' });
    return run;
  }

  /** Number of its runs that live in the agent. */
  get active(): number {
    return [...this.#agent.contexts.values()].reduce((sum, context) => sum + context.runs.size, 0);
  }

  send(server: number): Promise<ApiAnswer> {
    const path = `/v1/sandboxes/${this.sandboxId}/code/runs`;
    const body = { code: 'hang', language: 'python', timeoutMs: LIMITS.runTimeoutMaxMs };
    return this.#servers.call(server, 'POST', path, body, 'once');
  }

  /** Sends the request to the other server until that one may execute it. Returns its answer. */
  async repeat(): Promise<ApiAnswer> {
    let answer = await this.send(OTHER);
    const isDecided = async () => {
      if (answer.body.error?.code !== IN_PROGRESS) return true;
      answer = await this.send(OTHER);
      return false;
    };
    await eventually(isDecided, { within: PATIENCE_MS, because: 'the other server gets the record' });
    return answer;
  }

  /** Ends its runs in the agent. */
  async end(): Promise<void> {
    const [contextId = ''] = this.#agent.contexts.keys();
    const isEnded = async () => {
      await this.#agent.client().interrupt(contextId, AbortSignal.timeout(PATIENCE_MS));
      return this.active === 0;
    };
    await eventually(isEnded, { because: 'the runs have ended' });
  }

  get #agent() {
    return this.#servers.driver.agentOf(this.sandboxId);
  }
}

describe('a server that is cut off from the database', { skip: NEEDS_POSTGRES }, () => {
  it('a server that is cut off from the database ends its runs before another server executes them, is not ready, and comes back by itself', async () => {
    await using proxy = await StallingProxy.open(process.env[SOCKETS] ?? '');
    await using servers = await WholeServers.open(1);
    const cutOff = await startBehind(proxy, servers);
    const run = await RepeatedRun.begin(servers, cutOff);
    proxy.stall();
    const repeated = run.repeat();
    assert.equal((await run.first).body.error.code, 'unavailable');
    await eventually(() => run.active === 0, { because: 'the run has ended' });
    assert.equal((await servers.call(cutOff, 'GET', '/readyz')).status, 503);
    assert.equal((await servers.call(cutOff, 'GET', '/v1/sandboxes')).body.error.code, 'unavailable');

    const isRepeated = () => run.executions.length > 1;
    await eventually(isRepeated, { within: PATIENCE_MS, because: 'the other server executes the request' });
    assert.deepEqual(run.executions, [
      { claim: 1, isAnswered: false },
      { claim: 2, isAnswered: true },
    ]);
    assert.equal(run.active, 1);
    await run.end();
    const { status, body } = await repeated;
    assert.equal(status, 200);

    proxy.resume();
    const isReady = async () => (await servers.call(cutOff, 'GET', '/readyz')).status === 200;
    await eventually(isReady, { within: PATIENCE_MS, because: 'the server comes back' });
    assert.deepEqual((await run.send(cutOff)).body, body);
    assert.equal(run.active, 0);
    assert.equal(run.executions.length, 2);
  });

  it('a server that is cut off from the database has not ended its run then if it has no fence, and both runs live if the agent does not know their claims: the control', async () => {
    using restored = new DisposableStack();
    restored.defer(replace(Fence.prototype, { isClosed: false }));
    await using proxy = await StallingProxy.open(process.env[SOCKETS] ?? '');
    await using servers = await WholeServers.open(1, { CLOCHE_SERVER_LEASE_MS: '15000' });
    let unclaimed: RepeatedRun | undefined;
    const connect = servers.driver.connect.bind(servers.driver);
    servers.driver.connect = async (instance, ...rest) => {
      const agent = await connect(instance, ...rest);
      const isUnclaimed = () => instance.sandboxId === unclaimed?.sandboxId;
      return {
        ...agent,
        run: (id, cell, signal, memory) =>
          agent.run(id, isUnclaimed() ? runRequest(cell, WITHOUT_CLAIMS) : cell, signal, memory),
      };
    };
    const cutOff = await startBehind(proxy, servers);
    const claimed = await RepeatedRun.begin(servers, cutOff);
    unclaimed = await RepeatedRun.begin(servers, cutOff);
    const runs = [claimed, unclaimed];
    proxy.stall();
    const repeated = runs.map((run) => run.repeat());

    const isRepeated = () => claimed.executions.length > 1;
    await eventually(isRepeated, { within: PATIENCE_MS, because: 'the other server executes the request' });
    assert.deepEqual(claimed.executions, [
      { claim: 1, isAnswered: false },
      { claim: 2, isAnswered: false },
    ]);
    const isDoubled = () => unclaimed.active === 2;
    await eventually(isDoubled, { within: PATIENCE_MS, because: 'two runs of one request live in the agent' });

    proxy.resume();
    assert.equal((await claimed.first).body.error?.code, 'unavailable');
    assert.equal((await claimed.send(OTHER)).body.error?.code, IN_PROGRESS, 'the late answer is not stored');
    for (const run of runs) await run.end();
    await Promise.all(repeated);
  });
});
