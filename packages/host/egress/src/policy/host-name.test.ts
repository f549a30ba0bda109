import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseAuthority } from './authority.ts';
import { hostText, normalizeHost } from './host-name.ts';

const SAME: Record<string, readonly string[]> = {
  'example.com': ['example.com', 'EXAMPLE.com', 'Example.Com.'],
  'xn--bcher-kva.example': ['xn--bcher-kva.example', 'XN--BCHER-KVA.example'],
  '_srv.under_score.example': ['_srv.under_score.example'],
  '127.0.0.1': [
    '127.0.0.1',
    '127.0.0.1.',
    '127.1',
    '127.0.1',
    '2130706433',
    '0x7f000001',
    '0x7F.1',
    '0177.0.0.1',
    '017700000001',
    '127.0.0.0x1',
    '0x7f.0.0x0.01',
  ],
  '0.0.0.0': ['0', '0x', '0x0', '0.0.0.0', '00.0'],
  '255.255.255.255': ['4294967295', '255.255.255.255', '0xffffffff', '255.16777215', '037777777777'],
  '10.1.2.3': ['10.1.515', '10.66051', '012.1.2.3'],
};

const REFUSED = [
  '',
  '.',
  '..',
  '.example',
  'a..b',
  'a.b..',
  ' example.com',
  'exam ple.com',
  'example.com\t',
  'a%2eb',
  'a%00b',
  'a\0b',
  'bücher.example',
  'ⓔxample.com',
  '１２７.0.0.1',
  'a/b',
  'a@b',
  'a:b',
  'a,b',
  'a?b',
  'a#b',
  'a\\b',
  '::1',
  '[::1]',
  '::ffff:127.0.0.1',
  '*.example.com',
  '1.2.3.4.5',
  '256.1.1.1',
  '1.256.1.1',
  '4294967296',
  '0x100000000',
  '1.2.3.256',
  '1.16777216',
  '08.1.1.1',
  '127.0.0.09',
  '0xg.1',
  'a.1',
  'a.0x1',
  '1..1',
  '-1',
  '1e3.1',
  `${'a'.repeat(64)}.example`,
  `${'a.'.repeat(127)}abcd`,
];

describe('a host', () => {
  for (const [meant, forms] of Object.entries(SAME)) {
    test(`${meant} is one, however it is written`, () => {
      for (const form of forms) {
        const host = normalizeHost(form);
        assert.equal(host && hostText(host), meant, form);
      }
    });
  }

  for (const text of REFUSED) {
    const known = text === '-1' ? { kind: 'name', name: '-1' } : undefined;
    test(`${JSON.stringify(text.slice(0, 40))} is ${known ? 'a name like any other' : 'none'}`, () =>
      assert.deepEqual(normalizeHost(text), known));
  }
});

describe('an authority', () => {
  test('an authority is a host with or without a port', () => {
    assert.deepEqual(parseAuthority('Example.com:8080'), { host: { kind: 'name', name: 'example.com' }, port: 8080 });
    assert.deepEqual(parseAuthority('0x7f.1'), { host: { kind: 'ipv4', address: '127.0.0.1' } });
    assert.deepEqual(parseAuthority('a:'), { host: { kind: 'name', name: 'a' } });
  });

  test('an authority is nothing else', () => {
    for (const text of [
      '',
      ':80',
      'a:b',
      'a:0',
      'a:65536',
      'a:+80',
      'a: 80',
      'a:80:80',
      'u@a',
      'u:p@a:80',
      '[::1]:80',
    ]) {
      assert.equal(parseAuthority(text), undefined, text);
    }
  });
});
