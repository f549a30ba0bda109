/** Equal requests to many servers of one PostgreSQL database at once. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { WholeServers } from '../../testing/whole-servers.ts';

const EQUAL = 30;
/** For each kind of request: more than there are servers, so that each gives an answer again. More: `ROUNDS=200`. */
const ROUNDS = Number(process.env.ROUNDS ?? 12);

/** A kind of request, and how often such requests were executed. */
const REQUESTS = {
  runs: {
    path: (sandboxId: string) => `/v1/sandboxes/${sandboxId}/code/runs`,
    body: { code: 'sleep 5\nprint x', language: 'python' },
    async happened(servers: WholeServers, sandboxId: string) {
      const counting = { ...this.body, code: 'print count' };
      const { body } = await servers.call(0, 'POST', this.path(sandboxId), counting, `count ${this.counts}`);
      assert.ok(body.run, JSON.stringify(body));
      const counted = body.run.executionCount;
      // The runs that count are executions, too.
      this.counts += 1;
      return counted - this.counts;
    },
    counts: 0,
  },
  sandboxes: {
    path: () => '/v1/sandboxes',
    body: {},
    happened: async (servers: WholeServers) => (await servers.call(0, 'GET', '/v1/sandboxes')).body.data.length,
  },
  contexts: {
    path: (sandboxId: string) => `/v1/sandboxes/${sandboxId}/code/contexts`,
    body: { language: 'python' },
    async happened(servers: WholeServers, sandboxId: string) {
      return (await servers.call(0, 'GET', this.path(sandboxId))).body.data.length;
    },
  },
  commands: {
    path: (sandboxId: string) => `/v1/sandboxes/${sandboxId}/commands`,
    body: { command: ['sh', 'print x'], background: true },
    async happened(servers: WholeServers, sandboxId: string) {
      return (await servers.call(0, 'GET', this.path(sandboxId))).body.data.length;
    },
  },
};

describe('30 equal requests to servers of one database', { skip: NEEDS_POSTGRES }, () => {
  for (const count of [2, 10]) {
    describe(`of which there are ${count}`, () => {
      let servers: WholeServers;
      before(async () => {
        servers = await WholeServers.open(count);
      });
      after(() => servers?.[Symbol.asyncDispose]());

      for (const [what, request] of Object.entries(REQUESTS)) {
        it(`30 equal requests to servers of one database of which there are ${count} execute one of ${what} on ${count} servers, and the rest get its answer or a refusal`, async () => {
          const sandboxId = await servers.readySandbox();
          if ('counts' in request) request.counts = 0;
          const send = (index: number, key: string) =>
            servers.call(index, 'POST', request.path(sandboxId), request.body, key);
          const earlier = await request.happened(servers, sandboxId);
          for (let round = 1; round <= ROUNDS; round += 1) {
            const key = `${what} ${round}`;
            const answers = await Promise.all(Array.from({ length: EQUAL }, (_, index) => send(index, key)));
            const given = answers.filter(({ status }) => status < 300);
            const refused = answers.filter(({ body }) => body.error?.code === 'idempotency_request_in_progress');
            assert.ok(given.length > 0);
            assert.equal(given.length + refused.length, EQUAL, JSON.stringify(answers.map(({ body }) => body.error)));
            // One server after another: each of them gives the answer in some of the rounds.
            const replay = await send(round, key);
            for (const { body } of [...given, replay]) assert.deepEqual(body, given[0]?.body);
            assert.equal((await request.happened(servers, sandboxId)) - earlier, round);
          }
        });
      }
    });
  }
});
