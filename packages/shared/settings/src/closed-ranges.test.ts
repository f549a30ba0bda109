import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readOperatorRanges } from './closed-ranges.ts';

test('ranges of the operator are taken as they are written, of both families', () => {
  assert.deepEqual(readOperatorRanges({}), { allowCidrs: [], denyCidrs: [] });
  const env = {
    CLOCHE_EGRESS_ALLOW_CIDRS: '10.0.0.0/8, 192.168.1.5',
    CLOCHE_EGRESS_DENY_CIDRS: '10.1.0.0/16,2001:67c::/32',
  };
  assert.deepEqual(readOperatorRanges(env), {
    allowCidrs: ['10.0.0.0/8', '192.168.1.5/32'],
    denyCidrs: ['10.1.0.0/16', '2001:67c::/32'],
  });
});

test('what is not a range is refused by the name of its setting', () => {
  for (const name of ['CLOCHE_EGRESS_ALLOW_CIDRS', 'CLOCHE_EGRESS_DENY_CIDRS']) {
    for (const text of ['10.0.0.0/33', 'fd00::/129', 'fe80::1%lo', '10.0.0', 'x', '10.0.0.0/8/8', '1.2.3.4 } accept']) {
      assert.throws(() => readOperatorRanges({ [name]: text }), {
        message: new RegExp(`${name}.*${text.split(' ')[0]}`),
      });
    }
  }
});
