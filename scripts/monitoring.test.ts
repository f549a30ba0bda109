/** Checks the form of the dashboard and of the alert rules. e2e/functional/monitoring.test.ts checks their metrics. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { readAlerts, readQueries, selectionsOf } from './monitoring.ts';

describe('the dashboard and the alert rules', () => {
  it('the dashboard and the alert rules have queries that Prometheus can read, each of metrics of one job', () => {
    assert.ok(readQueries().length > 30);
    for (const { of, expr } of readQueries()) {
      const selections = selectionsOf(expr);
      assert.ok(selections.length > 0, of);
      for (const { metric, labels } of selections) {
        assert.match(metric, /^(cloche|nodejs|process)_\w+$|^up$/, of);
        assert.ok(labels.includes('job'), `${of}: ${metric}`);
      }
    }
    assert.throws(() => selectionsOf('sum(rate(x[5m])'), /not PromQL/);
    assert.throws(() => selectionsOf('sum rate x'), /not PromQL/);
    assert.deepEqual(selectionsOf('sum by (a) (rate(x{b="1"}[5m])) / on (c) y'), [
      { metric: 'x', labels: ['b', 'a', 'c'] },
      { metric: 'y', labels: ['c'] },
    ]);
  });

  it('the dashboard and the alert rules tell an operator what each alert means and what to do', () => {
    const operations = readFileSync(new URL('../docs/operating/monitoring.md', import.meta.url), 'utf8');
    const alerts = readAlerts();
    assert.equal(new Set(alerts.map(({ alert }) => alert)).size, alerts.length);
    for (const { alert, annotations } of alerts) {
      assert.match(annotations.summary, /\.$/, alert);
      assert.equal(annotations.runbook, `docs/operating/monitoring.md#${alert.toLowerCase()}`);
      assert.match(operations, new RegExp(`^#### ${alert}\\n\\n\\S.{40}`, 'm'), alert);
    }
    const described = [...operations.matchAll(/^#### (Cloche\w+)$/gm)].map((match) => match[1]);
    assert.deepEqual(
      described,
      alerts.map(({ alert }) => alert),
    );
  });
});
