/** Mutated requests: valid ones with arbitrary changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HostdErrorBody, type LaunchSpec, LaunchSpec as LaunchSpecSchema } from '@cloche/protocol';
import { fuzz, mutateBytes, mutateJson } from '@cloche/testkit/fuzz';
import { Compile } from 'typebox/compile';
import { appOf } from '../../testing/app-of.ts';
import type { AppDeps } from './app.ts';

const SPEC: LaunchSpec = {
  source: { kind: 'template', templateVersionId: 'tplv_0123456789abcdef0123' },
  resources: { cpu: 1, memoryBytes: 2 ** 29, diskBytes: 2 ** 28, pids: 128 },
  network: { mode: 'allowlist', hosts: ['example.com', '*.example.org'] },
};
const INSTANCE = { templateVersionId: 'tplv_1', agentSocketPath: '/x', startedAt: '2026-01-01T00:00:00Z' };
const launchSpec = Compile(LaunchSpecSchema);
const errorBody = Compile(HostdErrorBody);

test('hostd launches for valid requests and answers every other request with a protocol error', async () => {
  const launched: unknown[] = [];
  const instances = {
    list: () => [],
    launch: async (name: object, spec: LaunchSpec) => {
      launched.push(spec);
      return { ...name, ...INSTANCE, agentAnswers: false, kernelReady: false };
    },
    stop: async () => undefined,
  };
  const app = appOf({ instances: instances as unknown as AppDeps['instances'] });
  await fuzz(3000, async (random) => {
    launched.length = 0;
    const json = Buffer.from(JSON.stringify(random.chance(0.7) ? mutateJson(random, SPEC) : SPEC));
    const path = Buffer.from('/instances/sbx_0123456789/1');
    const answer = await app.inject({
      method: 'PUT',
      url: random.chance(0.3) ? `/${encodeURI(mutateBytes(random, path).toString('latin1'))}` : path.toString(),
      headers: { 'content-type': 'application/json' },
      payload: random.chance(0.3) ? mutateBytes(random, json) : json,
    });
    if (answer.statusCode === 200) {
      assert.equal(launched.length, 1);
      assert.ok(launchSpec.Check(launched[0]));
    } else {
      assert.equal(launched.length, 0);
      assert.ok(answer.statusCode >= 400 && answer.statusCode < 500, `${answer.statusCode}: ${answer.body}`);
      assert.ok(errorBody.Check(answer.json()), answer.body);
    }
  });
  await app.close();
});

test('hostd is told of a launch whose sandbox computes at once, and of no other', async () => {
  const told: string[] = [];
  const instances = {
    launch: async (name: object) => {
      told.push('launch');
      return { ...name, ...INSTANCE, agentAnswers: false, kernelReady: false };
    },
  };
  const app = appOf({
    instances: instances as unknown as AppDeps['instances'],
    noteBusyClaim: () => told.push('busy'),
  });
  for (const [query, status] of [
    ['', 200],
    ['?starts=busy', 200],
    ['?starts=idle', 400],
  ] as const) {
    const url = `/instances/sbx_0123456789/1${query}`;
    assert.equal((await app.inject({ method: 'PUT', url, payload: SPEC })).statusCode, status);
  }
  assert.deepEqual(told, ['launch', 'busy', 'launch']);
  await app.close();
});
