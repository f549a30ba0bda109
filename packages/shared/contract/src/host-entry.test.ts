import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  ACCEPTED_HOST_FORMS,
  HOST_ENTRY_PATTERN,
  type HostEntry,
  parseHostEntry,
  REFUSED_HOST_FORMS,
} from './host-entry.ts';

const MEANINGS: [string, HostEntry][] = [
  ['example.com', { kind: 'name', name: 'example.com' }],
  [`${'a'.repeat(63)}.example`, { kind: 'name', name: `${'a'.repeat(63)}.example` }],
  ['*.example.com', { kind: 'suffix', suffix: 'example.com' }],
  ['192.0.2.1', { kind: 'ipv4', address: '192.0.2.1' }],
];

/** Entries that the contract must refuse, independently of the table. */
const REFUSED_BY_CONTRACT = [
  'https://example.com',
  'example.com:443',
  '192.0.2.0/24',
  '2001:db8::1',
  'bücher.example',
  'Example.com',
  'a.*.com',
  '*',
  'example.com.',
  '010.0.0.1',
  '*.1.2.3.4',
  '-a.com',
];

const KINDS: Record<string, HostEntry['kind']> = { name: 'name', pattern: 'suffix', 'IPv4 address': 'ipv4' };
const shown = (text: string) => JSON.stringify(text.slice(0, 40));

describe('a host entry', () => {
  for (const [text, entry] of MEANINGS) {
    it(`${shown(text)} means what it says`, () => assert.deepEqual(parseHostEntry(text), { ok: true, entry }));
  }

  for (const { form, examples } of ACCEPTED_HOST_FORMS) {
    for (const text of examples) {
      it(`${shown(text)} is accepted as ${form}`, () => {
        const result = parseHostEntry(text);
        assert.equal(result.ok && result.entry.kind, KINDS[form]);
      });
    }
  }

  for (const { form, reason, examples } of REFUSED_HOST_FORMS) {
    for (const text of examples) {
      it(`${shown(text)} is refused as ${form}`, () => assert.deepEqual(parseHostEntry(text), { ok: false, reason }));
    }
  }

  for (const text of REFUSED_BY_CONTRACT) {
    it(`${shown(text)} is refused with a reason`, () => assert.equal(parseHostEntry(text).ok, false));
  }
});

describe('each form of a host entry', () => {
  it('each form of a host entry has a reason of its own and an example', () => {
    assert.equal(new Set(REFUSED_HOST_FORMS.map(({ reason }) => reason)).size, REFUSED_HOST_FORMS.length);
    for (const { form, examples } of [...ACCEPTED_HOST_FORMS, ...REFUSED_HOST_FORMS]) assert.ok(examples.length, form);
  });
});

it('the pattern of the OpenAPI document accepts the same entries', () => {
  const pattern = new RegExp(HOST_ENTRY_PATTERN);
  const labels = [
    'a',
    'a-b',
    '_',
    '-a',
    'a-',
    '',
    'A',
    '*',
    '0',
    '01',
    '255',
    '256',
    '0x1f',
    '0xg',
    'é',
    'a b',
    'a'.repeat(63),
    'a'.repeat(64),
  ];
  const long = [250, 251, 252, 253, 254].flatMap((length) => [`${'a.'.repeat(200)}`.slice(0, length - 1).concat('b')]);
  const entries = [
    ...[...ACCEPTED_HOST_FORMS, ...REFUSED_HOST_FORMS].flatMap(({ examples }) => examples),
    ...[...long, ...long.map((name) => `*.${name}`)],
    ...['1.2.3.4', '0.0.0.0', '255.255.255.255', '1.2.3.4.', '1.2.3.4\n', 'a.com\n', 'a.com:1', 'a.com/'],
  ];
  for (const one of labels) {
    entries.push(one, `*.${one}`);
    for (const two of labels) {
      entries.push(`${one}.${two}`, `*.${one}.${two}`);
      for (const three of labels) entries.push(`${one}.${two}.${three}`, `1.${one}.${two}.${three}`);
    }
  }
  for (const entry of entries) assert.equal(pattern.test(entry), parseHostEntry(entry).ok, JSON.stringify(entry));
});
