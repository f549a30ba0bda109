/** Holds the dashboard and the alert rules of `deploy/monitoring` to the metrics of a service that works. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { readQueries, selectionsOf } from '../../scripts/monitoring.ts';
import { sharedService, type TestService } from '../support/service.ts';

/** Labels that Prometheus adds to each sample. */
const ADDED = ['job', 'instance'];

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

/** Makes each metric have a sample with each of its labels: a creation, a run, a replay, a pause, a refusal, an end. */
async function useService(): Promise<void> {
  const { api } = service;
  const { id } = await api.readySandbox();
  const key = randomUUID();
  for (const _ of [1, 2]) await api.post(`/v1/sandboxes/${id}/code/runs`, { code: '1', language: 'python' }, key);
  await api.get('/v1/sandboxes/sbx_none');
  for (const move of ['pause', 'resume']) await api.post(`/v1/sandboxes/${id}/${move}`, {});
  // The other one lives, so that live sandboxes are counted.
  await api.readySandbox();
  await api.delete(`/v1/sandboxes/${id}`);
}

/** Returns the labels of each metric that a text in Prometheus' format has samples of, or describes. */
function labelsByMetric(text: string): Map<string, Set<string>> {
  const metrics = new Map<string, Set<string>>();
  for (const line of text.split('\n')) {
    const described = /^# TYPE (\S+) (?:counter|gauge)$/.exec(line)?.[1];
    const [, name = described, labels = ''] = /^([a-z_]+)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
    if (name === undefined) continue;
    const known = metrics.get(name) ?? new Set<string>();
    for (const [, label = ''] of labels.matchAll(/(\w+)="/g)) known.add(label);
    metrics.set(name, known);
  }
  return metrics;
}

describe('the dashboard and the alert rules', () => {
  it('the dashboard and the alert rules name only metrics and labels that the service exports', async () => {
    await useService();
    const metrics = labelsByMetric((await service.api.get('/metrics')).body);
    const wrong: string[] = [];
    for (const { of, expr } of readQueries()) {
      for (const { metric, labels } of selectionsOf(expr)) {
        if (metric === 'up') continue;
        const known = metrics.get(metric);
        if (!known) wrong.push(`${of}: ${metric} does not exist`);
        const unknown = labels.filter((label) => !ADDED.includes(label) && known?.has(label) === false);
        if (unknown.length > 0) wrong.push(`${of}: ${metric} has no label ${unknown}`);
      }
    }
    assert.deepEqual(wrong, []);
    assert.ok(!metrics.has('cloche_sandbox_count') && !metrics.get('cloche_sandboxes')?.has('state'));
  });
});
