import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OutputForms } from './output-forms.ts';

const forms = (limits = {}) => new OutputForms({ outputBytes: 100, outputsBytes: 200, ...limits });

test('the forms of one value share a bundle, and bundles are counted', () => {
  const outputs = forms();
  const first = outputs.convert('result', { 'text/plain': '1', 'text/html': '<b>1</b>' });
  const second = outputs.convert('display', { 'image/png': 'iVBO' });
  assert.deepEqual(
    [...first, ...second].map(({ format, role, bundle }) => [format, role, bundle]),
    [
      ['text', 'result', 0],
      ['html', 'result', 0],
      ['png', 'display', 1],
    ],
  );
});

test('JSON goes as text, a JSON string with its quotes', () => {
  const outputs = forms();
  const [object, text] = [{ a: [1] }, 'text'].map(
    (value) => outputs.convert('result', { 'application/json': value })[0],
  );
  assert.equal(object?.value, '{"a":[1]}');
  assert.equal(text?.value, '"text"');
});

test('a MIME type without a format of its own keeps its name', () => {
  const [plot] = forms().convert('display', { 'application/vnd.plot+json': { data: [] } });
  assert.deepEqual([plot?.format, plot?.mimeType], ['json', 'application/vnd.plot+json']);
  assert.deepEqual(forms().convert('display', { 'video/mp4': 'AAAA' }), []);
});

test('names that are no MIME types carry nothing, whatever else they name', () => {
  for (const name of ['constructor', '__proto__', 'toString', `text/${'x'.repeat(300)}`, '']) {
    assert.deepEqual(forms().convert('display', JSON.parse(`{${JSON.stringify(name)}: "x"}`)), []);
  }
});

test('outputs without end come to an end', () => {
  const outputs = forms({ outputsBytes: 2 ** 30 });
  const all = Array.from({ length: 20_000 }, () => outputs.convert('display', { 'text/plain': '1' })).flat();
  assert.equal(all.length, 10_000);
  assert.match(all.at(-1)?.value ?? '', /at most 10000/);
});

test('a form counts as long as JSON writes it, and so does the name of its type', () => {
  const outputs = forms({ outputBytes: 12, outputsBytes: 100 });
  const [kept, cut] = ['\u0001\u0002', '\u0001\u0002\u0003'].map(
    (text) => outputs.convert('display', { 'text/x-\u0007': text })[0]?.value,
  );
  assert.equal(kept, '\u0001\u0002');
  assert.match(cut ?? '', /output of 18 bytes as JSON left out/);
});

test('a form over either limit is replaced by a line that says so', () => {
  const outputs = forms({ outputBytes: 10, outputsBytes: 33 });
  const values = ['x'.repeat(11), 'y'.repeat(10), 'z'.repeat(6)].map(
    (text) => outputs.convert('display', { 'text/html': text })[0],
  );
  assert.match(values[0]?.value ?? '', /text\/html output of 11 bytes as JSON left out/);
  assert.equal(values[0]?.format, 'text');
  assert.equal(values[1]?.value, 'y'.repeat(10));
  assert.match(values[2]?.value ?? '', /output of 6 bytes as JSON left out; 5 bytes were available/);
});
