import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Counter, Registry } from 'prom-client';
import { HostMetrics, hostMetrics } from './host-metrics.ts';

describe('what other parts of the host count', () => {
  it('what other parts of the host count is shown as they say it', async () => {
    const registry = new Registry();
    const help = 'Requests, by what was decided.';
    const labelNames = ['protocol', 'reason'];
    const counter = new Counter({ name: 'cloche_egress_decisions_total', help, labelNames, registers: [registry] });
    counter.inc({ protocol: 'https', reason: '' }, 2.5e10);
    const text = await registry.metrics();
    assert.equal((await hostMetrics(async () => text)).trim(), text.trim());
    assert.match(text, /protocol="https"/);
  });

  it('what other parts of the host count is left out where it has another name or is malformed', async () => {
    const lines = [
      'cloche_sandboxes{status="ready"} 7',
      'process_cpu_seconds_total 1',
      '# HELP cloche_http_errors_total mine',
      'cloche_egress_x{a="b\\"} 1',
      'cloche_egress_x{a="\u0007"} 1',
      'cloche_egress_x one',
      'cloche_egress_x 1 1700000000000',
      `cloche_egress_x{a="${'y'.repeat(200)}"} 1`,
      '<script>',
    ];
    assert.equal(await hostMetrics(async () => [...lines, 'cloche_egress_y 1'].join('\n')), 'cloche_egress_y 1\n');
  });

  it('what other parts of the host count is empty where no server answers', async () => {
    assert.equal(await hostMetrics(() => Promise.reject(new Error('gone'))), '');
  });
});

describe('reading what the host counts', () => {
  it('happens once a second, however many ask', async () => {
    let reads = 0;
    let now = 0;
    const line = 'cloche_hostd_reads 1';
    const read = async () => {
      reads += 1;
      return line;
    };
    const metrics = new HostMetrics(read, () => now);
    for (const text of await Promise.all(Array.from({ length: 100 }, () => metrics.read()))) {
      assert.equal(text, `${line}\n`);
    }
    assert.equal(reads, 1);
    now = 1000;
    await metrics.read();
    assert.equal(reads, 2);
  });
});
