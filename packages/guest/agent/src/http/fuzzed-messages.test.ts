/** Messages of a kernel or the server to the agent: valid ones with arbitrary changes. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import { AgentRunEvent, FromKernel } from '@cloche/protocol';
import { fuzz, mutateBytes, mutateJson, type Random } from '@cloche/testkit/fuzz';
import { Compile } from 'typebox/compile';
import { AgentError } from '../base/agent-error.ts';
import { OutputForms } from '../contexts/output-forms.ts';
import { encodeFrame, FrameDecoder } from '../kernels/frames.ts';
import { readKernelMessage } from '../kernels/kernel-messages.ts';
import {
  readEnvironment,
  readJson,
  readOpenContext,
  readPauseAgent,
  readResumeAgent,
  readStartRun,
} from '../wire/requests.ts';

const FROM_KERNEL = [
  { type: 'ready', protocolVersion: 3 },
  { type: 'output', runId: 'run_1', role: 'result', forms: { 'text/plain': '1', 'application/json': [1, { a: 'é' }] } },
  { type: 'output', runId: 'run_1', role: 'display', forms: { 'image/png': 'iVBO', 'text/html': '<b>' }, sync: 7 },
  { type: 'done', runId: 'run_1', executionCount: 3 },
  {
    type: 'done',
    runId: 'run_1',
    executionCount: 4,
    error: { name: 'E', message: 'no', traceback: ['E: no', '  at 1'] },
  },
] as const;
const REQUESTS = [
  [readEnvironment, { env: { A: '1', B: '2' } }],
  [readPauseAgent, { token: 'pse_1', force: true }],
  [readResumeAgent, { token: 'pse_1', entropy: 'AAAA', now: 1 }],
  [readOpenContext, { language: 'python', cwd: '/workspace', timeoutMs: 1000 }],
  [
    readStartRun,
    {
      runId: 'run_1',
      code: '1 + 1',
      timeoutMs: 1000,
      limits: { stdoutBytes: 1, stderrBytes: 1, outputBytes: 1, outputsBytes: 1 },
    },
  ],
] as const;

type Request = readonly [read: (body: unknown) => unknown, valid: unknown];

const fromKernel = Compile(FromKernel);
const runEvent = Compile(AgentRunEvent);

/** Returns all messages decoded from `bytes`, which arrive in random chunks. Stops when the decoder throws. */
function decode(random: Random, bytes: Buffer): unknown[] {
  const decoder = new FrameDecoder();
  const messages: unknown[] = [];
  try {
    for (let at = 0; at < bytes.length; ) {
      const end = at + 1 + random.below(bytes.length);
      decoder.push(bytes.subarray(at, end));
      at = end;
      for (let frame = decoder.take(); frame !== undefined; frame = decoder.take()) messages.push(frame.message);
    }
  } catch (error) {
    assert.ok(error instanceof Error);
  }
  return messages;
}

describe('whatever a kernel sends', () => {
  test('whatever a kernel sends comes out of its frames whole, or is refused, and never as more than was sent', async () => {
    await fuzz(3000, (random) => {
      const frames = Buffer.concat(FROM_KERNEL.map(encodeFrame));
      const bytes = mutateBytes(random, frames);
      const messages = decode(random, bytes);
      const size = messages.reduce<number>((sum, message) => sum + encodeFrame(message).length, 0);
      // Escapes and numbers can be longer when they are encoded again, but not by much.
      assert.ok(size <= 8 * bytes.length);
    });
  });

  test('whatever a kernel sends is read as a message of the protocol, or refused', async () => {
    await fuzz(5000, (random) => {
      const sent = mutateJson(random, random.pick<unknown>(FROM_KERNEL));
      let message: FromKernel;
      try {
        message = readKernelMessage(sent);
      } catch (error) {
        assert.ok(error instanceof Error);
        return;
      }
      assert.ok(fromKernel.Check(message), JSON.stringify(message).slice(0, 1000));
      assert.deepEqual(readKernelMessage(message), message);
    });
  });

  test('whatever a kernel sends becomes outputs that the server takes, within their limits', async () => {
    const limits = { outputBytes: 1000, outputsBytes: 3000 };
    await fuzz(3000, (random) => {
      const sent = mutateJson(random, random.pick<unknown>([FROM_KERNEL[1].forms, FROM_KERNEL[2].forms]));
      const forms = new OutputForms(limits);
      if (typeof sent !== 'object' || sent === null || Array.isArray(sent)) return;
      const outputs = forms.convert('display', sent as Record<string, unknown>);
      for (const data of outputs) {
        assert.ok(runEvent.Check(JSON.parse(JSON.stringify({ type: 'output', runId: 'run_1', data }))));
        assert.ok(Buffer.byteLength(data.value) <= limits.outputBytes);
      }
    });
  });
});

describe('whatever is asked of the agent', () => {
  test('whatever is asked of the agent is read as it was meant, or refused as a bad request', async () => {
    await fuzz(3000, async (random) => {
      const [read, valid] = random.pick<Request>(REQUESTS);
      const body = mutateBytes(random, Buffer.from(JSON.stringify(mutateJson(random, valid))));
      try {
        const request = read(await readJson(Readable.from([body]) as Parameters<typeof readJson>[0]));
        assert.deepEqual(read(request), request);
      } catch (error) {
        assert.ok(error instanceof AgentError && error.code === 'bad_request', String(error));
      }
    });
  });
});
