import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { normalizeNetworkPolicy } from './network-policy.ts';

describe('a network policy', () => {
  it('a network policy keeps the order of its hosts and drops duplicates', () => {
    const result = normalizeNetworkPolicy({ mode: 'allowlist', hosts: ['b.com', 'a.com', 'b.com'] });
    assert.deepEqual(result, { ok: true, policy: { mode: 'allowlist', hosts: ['b.com', 'a.com'] } });
  });

  it('a network policy names every wrong host by its place', () => {
    const result = normalizeNetworkPolicy({ mode: 'denylist', hosts: ['a.com', 'B.com', 'c:1'] });
    assert.deepEqual(result.ok ? [] : result.issues.map((issue) => issue.path), ['hosts.1', 'hosts.2']);
  });

  for (const mode of ['unrestricted', 'deny-all'] as const) {
    it(`${mode} takes no hosts, not even none`, () => {
      assert.equal(normalizeNetworkPolicy({ mode, hosts: [] }).ok, false);
      assert.deepEqual(normalizeNetworkPolicy({ mode }), { ok: true, policy: { mode } });
    });
  }

  for (const mode of ['allowlist', 'denylist'] as const) {
    it(`${mode} needs hosts`, () => {
      assert.equal(normalizeNetworkPolicy({ mode }).ok, false);
      assert.equal(normalizeNetworkPolicy({ mode, hosts: [] }).ok, false);
    });
  }
});
