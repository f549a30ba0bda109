import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import { type Answer, Api } from '../support/api.ts';
import { SandboxCommands } from '../support/commands.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let sandboxId: SandboxId;
let runs: string;
before(async () => {
  service = await sharedService();
  sandboxId = (await service.api.readySandbox()).id;
  runs = `/v1/sandboxes/${sandboxId}/code/runs`;
});
after(() => service.close());

const python = (code: string) => ({ code, language: 'python' });
const code = (answer: Answer) => answer.body.error?.code;

describe('an Idempotency-Key', () => {
  it('one of 30 simultaneous equal runs with one Idempotency-Key executes; the rest get the replay or 409', async () => {
    const key = randomUUID();
    const body = python('counter = globals().get("counter", 0) + 1\nimport time; time.sleep(0.2)\ncounter');
    const answers = await Promise.all(Array.from({ length: 30 }, () => service.api.post(runs, body, key)));
    const executed = answers.filter(({ status, headers }) => status === 200 && !headers.get('idempotency-replayed'));
    assert.equal(executed.length, 1);
    for (const answer of answers) {
      if (answer.status === 200) assert.deepEqual(answer.body, executed[0]?.body);
      else {
        assert.equal(code(answer), 'idempotency_request_in_progress');
        assert.ok(answer.headers.get('retry-after'));
      }
    }
    assert.equal((await service.api.run(sandboxId, 'counter')).outputs[0]?.value, '1');
  });

  it('30 simultaneous equal creations with one Idempotency-Key make one sandbox', async () => {
    const key = randomUUID();
    const label = randomUUID();
    await Promise.all(
      Array.from({ length: 30 }, () => service.api.post('/v1/sandboxes', { metadata: { label } }, key)),
    );
    const { data } = (await service.api.get(`/v1/sandboxes?metadata.label=${label}`)).body;
    assert.equal(data.length, 1);
    await service.api.delete(`/v1/sandboxes/${data[0].id}`);
  });

  it('replays the original answer, also when the JSON is spelled otherwise', async () => {
    const key = randomUUID();
    const first = await service.api.post(runs, '{"code":"import random; random.random()","language":"python"}', key);
    const again = await service.api.post(
      runs,
      '{ "language": "python", "code": "import random; random.random()" }',
      key,
    );
    assert.equal(again.status, 200);
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.deepEqual(again.body, first.body);
  });

  it('with another body is refused, while the first is in progress and after it', async () => {
    const key = randomUUID();
    const commands = new SandboxCommands(service, sandboxId);
    const [begun, mayEnd] = [`/tmp/begun-${key}`, `/tmp/may-end-${key}`];
    const slow = python(`import os, time
open("${begun}", "w").close()
while not os.path.exists("${mayEnd}"): time.sleep(0.05)`);
    const first = service.api.post(runs, slow, key);
    await commands.run(`until [ -e ${begun} ]; do sleep 0.05; done`);
    assert.equal(code(await service.api.post(runs, slow, key)), 'idempotency_request_in_progress');
    assert.equal(code(await service.api.post(runs, python('2'), key)), 'idempotency_key_reused');
    await commands.run(`touch ${mayEnd}`);
    assert.equal((await first).status, 200);
    for (const other of [python('2'), { ...slow, timeoutMs: 60_000 }])
      assert.equal(code(await service.api.post(runs, other, key)), 'idempotency_key_reused');
  });

  it('an Idempotency-Key belongs to one route, one sandbox and one API key', async () => {
    const key = randomUUID();
    const other = (await service.api.readySandbox()).id;
    const otherKey = new Api(service.url, await service.createKey({ scopes: ['*'] }));
    const body = python('"x"');
    const answers = [
      await service.api.post(runs, body, key),
      await service.api.post(`/v1/sandboxes/${other}/code/runs`, body, key),
      await otherKey.post(runs, body, key),
    ];
    for (const answer of answers) {
      assert.equal(answer.status, 200);
      assert.equal(answer.headers.get('idempotency-replayed'), null);
    }
    await service.api.delete(`/v1/sandboxes/${other}`);
  });

  it('a rejected request leaves no record of its Idempotency-Key: the same key may be used with a better body', async () => {
    const key = randomUUID();
    assert.equal(code(await service.api.post(runs, python(''), key)), 'invalid_request');
    assert.equal(code(await service.api.post('/v1/sandboxes/sbx_unknown/code/runs', python('1'), key)), 'not_found');
    assert.equal((await service.api.post(runs, python('1'), key)).status, 200);
  });

  it('an Idempotency-Key is required where the spec says so, and is 1 to 255 printable characters', async () => {
    const without = await service.api.request('POST', runs, { body: python('1') });
    assert.equal(code(without), 'invalid_request');
    assert.match(without.body.error.message, /Idempotency-Key/i);
    assert.equal(code(await service.api.post(runs, python('1'), 'k'.repeat(256))), 'invalid_request');
    assert.equal((await service.api.post(runs, python('1'), 'k'.repeat(255))).status, 200);
  });

  it('the Idempotency-Key of a failed code run replays the failure of the code', async () => {
    const key = randomUUID();
    const first = await service.api.post(runs, python('1/0'), key);
    const again = await service.api.post(runs, python('1/0'), key);
    assert.equal(again.headers.get('idempotency-replayed'), 'true');
    assert.deepEqual(again.body, first.body);
  });
});
