import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jsonBytes } from './json-bytes.ts';

const CASES: Readonly<Record<string, readonly [text: string, bytes: number]>> = {
  'plain ASCII takes a byte a character': ['abc', 3],
  'quotes, backslashes and line feeds take two': ['"\\\n\r\t\b\f', 14],
  'other control characters take six': ['\u0000\u0001\u001f', 18],
  'DEL is written as it is': ['\u007f', 1],
  'characters beyond ASCII take their bytes in UTF-8': ['é€😀', 9],
  'a lone surrogate takes six': ['\ud800x\udc00', 13],
};

for (const [title, [text, bytes]] of Object.entries(CASES)) {
  test(title, () => {
    assert.equal(jsonBytes(text), bytes);
    assert.equal(jsonBytes(text), Buffer.byteLength(JSON.stringify(text)) - 2);
  });
}
