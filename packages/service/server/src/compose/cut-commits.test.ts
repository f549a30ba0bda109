/** A server whose connections are cut after PostgreSQL has committed a claim, and before the server gets the answer. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { SOCKETS } from '../../testing/postgres/postgres-server.ts';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { replace } from '../../testing/simulation/replace.ts';
import { StallingProxy } from '../../testing/stalling-proxy.ts';
import { WholeServers } from '../../testing/whole-servers.ts';
import { openDatabase } from '../platform/db/open-database.ts';
import { IdempotencyRepository } from '../platform/idempotency/idempotency-repository.ts';

/** The shortest lease, whose servers have a heartbeat each second. */
const LEASE = { CLOCHE_SERVER_LEASE_MS: '6000' };
const KEY = 'cut at commit';
const IN_PROGRESS = '409 idempotency_request_in_progress';
/** Heartbeats after which the request can be sent again at the latest. */
const MOST_BEATS = 2;

interface Cut {
  /** What the repeated request got, and whether the heartbeats that may pass had passed before it was sent. */
  readonly answers: { text: string; isLate: boolean }[];
  readonly executions: number;
}

/** Cuts a run off at the commit of its claim, and repeats it until it succeeds or heartbeats have passed in vain. */
async function cutAtCommit(failUnheld: IdempotencyRepository['failUnheld']): Promise<Cut> {
  await using proxy = await StallingProxy.open(process.env[SOCKETS] ?? '');
  await using servers = await WholeServers.open(1, LEASE);
  const url = servers.databaseUrl;
  const cutOff = await servers.start(url.replace(/host=.*$/, `host=${encodeURIComponent(proxy.folder)}`));
  await using db = await openDatabase(url);
  const sandboxId = await servers.readySandbox();
  let executions = 0;
  servers.driver.agentOf(sandboxId).onExecution = () => {
    executions += 1;
  };
  const path = `/v1/sandboxes/${sandboxId}/code/runs`;
  const send = async (key: string) => {
    const run = { code: 'print x', language: 'python' };
    const { status, body } = await servers.call(cutOff, 'POST', path, run, key);
    return status === 200 ? '200' : `${status} ${body.error.code}`;
  };
  assert.equal(await send('first'), '200');
  executions = 0;

  proxy.loseAnswers();
  const first = send(KEY);
  const record = db.selectFrom('idempotency_records').select(['state', 'owner']).where('key', '=', KEY);
  const isCommitted = async () => (await record.executeTakeFirst())?.state === 'in_progress';
  await eventually(isCommitted, { because: 'the claim is committed' });
  const { owner } = await record.executeTakeFirstOrThrow();
  let beats = 0;
  using restored = new DisposableStack();
  const counted = async function (this: IdempotencyRepository, ...[server, held]: Parameters<typeof failUnheld>) {
    const failed = await failUnheld.call(this, server, held);
    if (owner.startsWith(`${server}:`)) beats += 1;
    return failed;
  };
  restored.defer(replace(IdempotencyRepository.prototype, { failUnheld: counted }));
  proxy.cut();
  assert.equal(await first, '503 unavailable');

  const answers: Cut['answers'] = [];
  const isOver = async () => {
    const isLate = beats >= MOST_BEATS;
    const text = await send(KEY);
    answers.push({ text, isLate });
    return text === '200' || (isLate && text === IN_PROGRESS);
  };
  await eventually(isOver, { because: 'the request is executed, or its key is still in use' });
  return { answers, executions };
}

describe('a claim whose commit is not answered, because the connections are cut', { skip: NEEDS_POSTGRES }, () => {
  it('a claim whose commit is not answered, because the connections are cut is given up within two heartbeats, and its request is then executed once', async () => {
    const { answers, executions } = await cutAtCommit(IdempotencyRepository.prototype.failUnheld);
    const texts = answers.map(({ text }) => text);
    assert.equal(texts.pop(), '200');
    const others = texts.filter((text) => text !== IN_PROGRESS && text !== '503 unavailable');
    assert.deepEqual(others, []);
    assert.equal(executions, 1);
  });

  it('a claim whose commit is not answered, because the connections are cut keeps its key in use if no heartbeat looks for it: the control', async () => {
    const { answers, executions } = await cutAtCommit(async () => 0);
    assert.deepEqual(answers.at(-1), { text: IN_PROGRESS, isLate: true });
    assert.equal(executions, 0);
  });
});
