import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeFrame, FrameDecoder } from './frames.ts';
import { readKernelMessage } from './kernel-messages.ts';

function decodeAll(decoder: FrameDecoder): unknown[] {
  const messages: unknown[] = [];
  for (let frame = decoder.take(); frame !== undefined; frame = decoder.take()) messages.push(frame.message);
  return messages;
}

test('messages come out whole and in order, however their bytes are divided', () => {
  const messages = [{ a: 1 }, { text: 'é€😀'.repeat(100) }, {}];
  const bytes = Buffer.concat(messages.map(encodeFrame));
  for (const size of [1, 3, 4, 7, 1000, bytes.length]) {
    const decoder = new FrameDecoder();
    const found: unknown[] = [];
    for (let at = 0; at < bytes.length; at += size) {
      decoder.push(bytes.subarray(at, at + size));
      found.push(...decodeAll(decoder));
    }
    assert.deepEqual(found, messages, `in chunks of ${size}`);
  }
});

test('a frame that announces too much is refused before its body comes', () => {
  const decoder = new FrameDecoder();
  decoder.push(Buffer.from([0xff, 0xff, 0xff, 0xff]));
  assert.throws(() => decoder.take(), /too large/);
});

test('a frame of nothing but brackets is refused before they become values', () => {
  const decoder = new FrameDecoder();
  const body = Buffer.alloc(2 << 20, '[]');
  decoder.push(Buffer.concat([Buffer.from([0, 0x20, 0, 0]), body]));
  assert.throws(() => decoder.take(), /values/);
});

test('a frame with more levels than can be written as JSON again is refused', () => {
  const decoder = new FrameDecoder();
  const body = Buffer.from('['.repeat(2 ** 15) + ']'.repeat(2 ** 15));
  decoder.push(Buffer.concat([Buffer.from([0, 1, 0, 0]), body]));
  assert.throws(() => decoder.take(), /levels/);
});

test('what is no JSON is refused', () => {
  const decoder = new FrameDecoder();
  decoder.push(Buffer.from([0, 0, 0, 2, 0x7b, 0x7b]));
  assert.throws(() => decoder.take());
});

test('only messages of the protocol are taken from a kernel', () => {
  const done = { type: 'done', runId: 'r', executionCount: 1 };
  assert.deepEqual(readKernelMessage({ ...done, extra: 1 }), done);
  for (const message of [
    null,
    [],
    'done',
    {},
    { type: 'execute' },
    { ...done, executionCount: -1 },
    { ...done, executionCount: Number.NaN },
    { ...done, runId: 1 },
    { ...done, error: { name: 'E', message: 'm' } },
    { type: 'output', runId: 'r', role: 'result', forms: [] },
  ]) {
    assert.throws(() => readKernelMessage(message), JSON.stringify(message));
  }
});

test('an error report that is too long is cut', () => {
  const long = 'x'.repeat(2 << 20);
  const error = { name: long, message: long, traceback: [long] };
  const message = readKernelMessage({ type: 'done', runId: 'r', executionCount: 1, error });
  assert.ok(JSON.stringify(message).length < (1 << 20) + 1000);
});
