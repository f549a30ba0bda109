/** Clients of the SDK that work without a pause, and check that each of their requests was executed exactly once. */
import assert from 'node:assert/strict';
import type { CreateSandboxBody } from '@cloche/contract';
import type { Cloche, Sandbox } from '@cloche/sdk';
import { eventually } from '@cloche/testkit/eventually';

/** Longer than hostd takes to be replaced on a busy machine. */
const LAUNCH_MS = 240_000;
/** Longer than a launch. */
const PATIENCE_MS = 300_000;

export interface SdkLoad extends Disposable {
  /** Resolves when every client has completed `rounds` more rounds. Throws the failure of a client. */
  proceeds(rounds?: number): Promise<void>;
  /** Ends the clients after their rounds under way. Throws the failure of a client. */
  end(): Promise<void>;
}

/** Starts as many clients. The SDK repeats what failed by its own rules; any error that it throws is a failure. */
export function startSdkLoad(cloche: Cloche, clients: number): SdkLoad {
  const over = new AbortController();
  const rounds = Array.from({ length: clients }, () => 0);
  const work = async (client: number) => {
    const sandbox = await createSandbox(cloche);
    await sandbox.run('count = 0');
    while (!over.signal.aborted) {
      const round = (rounds[client] ?? 0) + 1;
      await runOnce(sandbox, round);
      await createOne(cloche);
      rounds[client] = round;
    }
    await sandbox.kill();
  };
  const failures: unknown[] = [];
  const all = rounds.map((_, client) => work(client).catch((error: unknown) => failures.push(error)));
  const throwFailure = () => {
    if (failures.length > 0) throw new AggregateError(failures, `a client failed: ${failures.map(String).join('; ')}`);
  };
  return {
    async proceeds(more = 2) {
      const aims = rounds.map((round) => round + more);
      const isThere = () => {
        throwFailure();
        return rounds.every((round, client) => round >= (aims[client] ?? 0));
      };
      await eventually(isThere, { within: PATIENCE_MS });
    },
    async end() {
      over.abort();
      await Promise.all(all);
      throwFailure();
    },
    [Symbol.dispose]: () => over.abort(),
  };
}

/** Resolves when the sandbox is ready, however long its launch waits for hostd. */
export async function createSandbox(cloche: Cloche, body: CreateSandboxBody = {}): Promise<Sandbox> {
  return (await cloche.sandboxes.create(body)).waitUntilReady({ timeoutMs: LAUNCH_MS });
}

/**
 * A variable and a file of the sandbox count what was executed, so a request that is lost or executed twice is noticed.
 */
async function runOnce(sandbox: Sandbox, round: number): Promise<void> {
  const { outputs, stateLost } = await sandbox.run('count += 1; count');
  assert.deepEqual([outputs[0]?.value, stateLost], [String(round), undefined]);
  const { stdout } = await sandbox.commands.run('echo >> lines; wc -l < lines');
  assert.equal(Number(stdout), round);
}

async function createOne(cloche: Cloche): Promise<void> {
  const sandbox = await createSandbox(cloche);
  assert.equal((await sandbox.run('6 * 7')).outputs[0]?.value, '42');
  await sandbox.kill();
}
