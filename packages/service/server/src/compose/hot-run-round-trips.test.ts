/** How often a run waits for PostgreSQL, with a whole server on a fake runtime. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { Client } from 'pg';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { WholeServers } from '../../testing/whole-servers.ts';

/** Statements of a run, by the begin of their text. */
const OF_RUNS = {
  claim: /^insert into "idempotency_records"/,
  'look-up': /^select .* from "sandboxes" left join "code_contexts"/,
  sandbox: /^select \* from "sandboxes" where "id" = /,
  context: /^select \* from "code_contexts" where/,
  completion: /^update "idempotency_records" set "state" = /,
};

let log: string[] = [];
const original = Client.prototype.query;
before(() => {
  const recording = function (this: Client, ...parameters: [{ text?: string } | string]) {
    const [asked] = parameters;
    const text = (typeof asked === 'string' ? asked : asked.text) ?? '';
    const name = Object.entries(OF_RUNS).find(([, begin]) => begin.test(text))?.[0];
    if (name !== undefined) log.push(name);
    const answer = original.apply(this, parameters as never) as unknown;
    if (name !== undefined && answer instanceof Promise) answer.then(() => log.push(`${name} done`)).catch(() => {});
    return answer;
  };
  Client.prototype.query = recording as unknown as typeof original;
});
after(() => {
  Client.prototype.query = original;
});

describe('a run in a context that exists, with PostgreSQL', { skip: NEEDS_POSTGRES }, () => {
  it('a run in a context that exists, with PostgreSQL, executes three statements, and waits twice: its look-up is sent right after its claim', async () => {
    await using servers = await WholeServers.open(1);
    const path = `/v1/sandboxes/${await servers.readySandbox()}/code/runs`;
    let runs = 0;
    const run = async () => {
      runs += 1;
      const body = { code: 'print x', language: 'python' };
      assert.equal((await servers.call(0, 'POST', path, body, `run ${runs}`)).status, 200);
    };
    // Opens connections, of which a run uses two at once.
    await Promise.all(Array.from({ length: 8 }, run));
    const lookUpIsSentWithClaim = async () => {
      log = [];
      await run();
      await eventually(() => log.includes('completion done'), { because: 'the completion is logged' });
      const isSent = (entry: string) => !entry.endsWith(' done');
      const sent = log.filter(isSent).join();
      return sent === 'claim,look-up,completion' && log.slice(0, 2).every(isSent);
    };
    // Other work of the server may have a connection for a moment, or execute such a statement too.
    await eventually(lookUpIsSentWithClaim, {
      because: 'the claim and then the look-up are sent before any is answered',
    });
  });
});
