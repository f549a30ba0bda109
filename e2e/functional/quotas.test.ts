import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { globSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { dataPaths } from '@cloche/layout';
import { eventually } from '@cloche/testkit/eventually';
import type { Answer } from '../support/api.ts';
import { sameWithEachRuntime } from '../support/claims.ts';
import { type OwnService, TAKEN_OVER_MS, testService } from '../support/service.ts';

const LIMIT = 10;

let service: OwnService;
let projectId: string;
before(async () => {
  // No pool: the test counts instances on the host.
  service = await testService({ CLOCHE_POOL_SIZE: '0' });
  projectId = (await service.api.get('/v1/projects')).body.data[0].id;
  const path = `/v1/projects/${projectId}`;
  const limited = await service.api.request('PATCH', path, { body: { quotas: { liveSandboxes: LIMIT } } });
  assert.equal(limited.status, 200);
});
after(() => service?.close());

const live = async (): Promise<string[]> =>
  (await service.api.get('/v1/sandboxes')).body.data.map(({ id }: { id: string }) => id);
const used = async (): Promise<number> => {
  const { data } = (await service.api.get(`/v1/quotas?projectId=${projectId}`)).body;
  return data.find(({ quota }: { quota: string }) => quota === 'liveSandboxes').used;
};
const instances = () => globSync('instances/*/instance.json', { cwd: dataPaths(service.dataDir).hostdDir }).length;

/** Sends a creation for each key at once. Returns undefined for an answer that was lost. */
function createAll(keys: readonly string[]): Promise<(Answer | undefined)[]> {
  const create = (key: string) => service.api.post('/v1/sandboxes', { template: 'node' }, key);
  return Promise.all(keys.map((key) => create(key).catch(() => undefined)));
}

/**
 * Sends a creation for each key at once, and again while a server that was killed counts as working on it. The one server of a
 * SQLite file knows at its start that none does.
 */
async function repeatAll(keys: readonly string[]): Promise<(Answer | undefined)[]> {
  const answers = new Map<string, Answer | undefined>();
  const send = async () => {
    const open = keys.filter((key) => !answers.has(key) || isInProgress(answers.get(key)));
    const sent = await createAll(open);
    for (const [index, key] of open.entries()) answers.set(key, sent[index]);
    return service.servers === 1 || ![...answers.values()].some(isInProgress);
  };
  await eventually(send, { within: TAKEN_OVER_MS });
  return [...answers.values()];
}

const isInProgress = (answer: Answer | undefined) => answer?.body.error?.code === 'idempotency_request_in_progress';

/** Returns the sandboxes of answers that say that they were created. */
function createdIn(answers: readonly (Answer | undefined)[]): string[] {
  return answers.flatMap((answer) => (answer?.status === 201 ? [answer.body.sandbox.id] : []));
}

async function requireConsistent(acknowledged: readonly string[], atLeast = 0): Promise<void> {
  const ids = await live();
  assert.ok(ids.length >= atLeast && ids.length <= LIMIT, `${ids.length} live sandboxes`);
  assert.equal(await used(), ids.length);
  for (const id of acknowledged) assert.ok(ids.includes(id), `${id} was answered and is not there`);
}

const kept = sameWithEachRuntime('the server counts the records of its database');

describe('a limit of 10 live sandboxes', () => {
  it(
    'a limit of 10 live sandboxes holds although the server is killed with -9 in 100 simultaneous creations, and no place is lost',
    kept,
    async () => {
      for (const killAfterMs of [5, 25, 80]) {
        const keys = Array.from({ length: 100 }, () => randomUUID());
        const sending = createAll(keys);
        await delay(killAfterMs);
        await service.kill('server');
        const acknowledged = createdIn(await sending);
        await service.restart('server');
        await requireConsistent(acknowledged);

        // The same requests again fill the places that are left, and no more.
        const repeated = await repeatAll(keys);
        assert.deepEqual(
          repeated.filter((answer) => ![201, 429].includes(answer?.status ?? 0)),
          [],
        );
        await requireConsistent([...acknowledged, ...createdIn(repeated)], LIMIT);
        await eventually(() => instances() === LIMIT, { within: TAKEN_OVER_MS });

        await Promise.all((await live()).map((id) => service.api.delete(`/v1/sandboxes/${id}`)));
        await eventually(async () => (await used()) === 0 && instances() === 0);
      }
      const again = await createAll(Array.from({ length: LIMIT + 5 }, () => randomUUID()));
      assert.equal(createdIn(again).length, LIMIT);
    },
  );
});
