import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { normalizeNetworkPolicy, parseHostEntry } from './network-policy.ts';

const accepted: [string, object][] = [
  ['example.com', { kind: 'name', name: 'example.com' }],
  ['localhost', { kind: 'name', name: 'localhost' }],
  ['a_b.example', { kind: 'name', name: 'a_b.example' }],
  ['xn--bcher-kva.example', { kind: 'name', name: 'xn--bcher-kva.example' }],
  ['1e100.net', { kind: 'name', name: '1e100.net' }],
  [`${'a'.repeat(63)}.example`, { kind: 'name', name: `${'a'.repeat(63)}.example` }],
  ['*.example.com', { kind: 'suffix', suffix: 'example.com' }],
  ['192.0.2.1', { kind: 'ipv4', address: '192.0.2.1' }],
  ['0.0.0.0', { kind: 'ipv4', address: '0.0.0.0' }],
];

const refused: [string, RegExp][] = [
  ['', /empty/],
  ['*', /leftmost/],
  ['a.*.com', /leftmost/],
  ['**.a.com', /leftmost/],
  ['*.*.com', /leftmost/],
  ['Example.com', /lower case/],
  ['bücher.example', /ASCII/],
  ['https://example.com', /URL/],
  ['example.com:443', /port/],
  ['example.com/a', /path/],
  ['192.0.2.0/24', /CIDR/],
  ['2001:db8::1', /IPv6/],
  ['[::1]', /IPv6/],
  ['::ffff:192.0.2.1', /IPv6/],
  ['256.1.1.1', /number/],
  ['010.0.0.1', /number/],
  ['1.2.3', /number/],
  ['1.2.3.4.5', /number/],
  ['0x7f.0.0.1', /number/],
  ['example.0x1', /number/],
  ['2130706433', /number/],
  ['*.1.2.3.4', /\*\./],
  ['example.com.', /dot/],
  ['.example.com', /dot/],
  ['a..b', /dot/],
  ['-a.com', /hyphen/],
  ['a-.com', /hyphen/],
  ['a b.com', /letters/],
  ['a\n.com', /ASCII/],
  [`${'a'.repeat(64)}.com`, /63/],
  [`${'a.'.repeat(126)}abc`, /253/],
];

describe('a host entry', () => {
  for (const [text, entry] of accepted) {
    it(`"${text.slice(0, 30)}" is accepted`, () => assert.deepEqual(parseHostEntry(text), { ok: true, entry }));
  }
  for (const [text, reason] of refused) {
    it(`${JSON.stringify(text.slice(0, 30))} is refused with a reason`, () => {
      const result = parseHostEntry(text);
      assert.equal(result.ok, false);
      assert.match(result.ok ? '' : result.reason, reason);
    });
  }
});

describe('a network policy', () => {
  it('keeps the order of its hosts and drops duplicates', () => {
    const result = normalizeNetworkPolicy({ mode: 'allowlist', hosts: ['b.com', 'a.com', 'b.com'] });
    assert.deepEqual(result, { ok: true, policy: { mode: 'allowlist', hosts: ['b.com', 'a.com'] } });
  });

  it('names every wrong host by its place', () => {
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
