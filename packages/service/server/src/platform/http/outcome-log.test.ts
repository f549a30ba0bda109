import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { pino } from 'pino';
import { startEchoService } from '../../../testing/echo-service.ts';
import { OutcomeLog, UNKNOWN_CLIENT_LINES } from './outcome-log.ts';

const SENT = 4 * UNKNOWN_CLIENT_LINES;
const OUTCOME = { requestId: 'x', operation: 'x', method: 'GET', url: '/v1/x', status: 401, durationMs: 1 };

describe('the log of requests', () => {
  it('the log of requests does not grow with requests without a key that fail, such as while the database is away', async () => {
    const lines: unknown[] = [];
    const outcomes = new OutcomeLog(pino({}, { write: (line: string) => lines.push(line) }));
    for (let count = 0; count < SENT; count++) outcomes.write({ ...OUTCOME, status: 503, errorCode: 'unavailable' });
    assert.equal(lines.length, UNKNOWN_CLIENT_LINES);
  });

  it('the log of requests does not grow with wrong keys, and goes on for requests with a good one', async () => {
    await using service = await startClosable();
    const before = service.lines.length;
    const keys = Array.from({ length: SENT }, (_, index) => ['clk_mistyped', 'wrong but long enough', null][index % 3]);
    const answers = await Promise.all(keys.map((key) => service.call('GET', '/v1/sandboxes', { key: key ?? null })));
    for (const { status } of answers) assert.ok(status === 401 || status === 429, `${status}`);
    assert.ok(service.lines.length - before <= UNKNOWN_CLIENT_LINES);
    await service.call('GET', '/v1/sandboxes');
    assert.equal(service.lines.at(-1)?.status, 200);
  });

  it('the log of requests says afterwards how many requests it left out', () => {
    let now = 1_000_000;
    const lines: Record<string, unknown>[] = [];
    const log = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
    const outcomes = new OutcomeLog(log, () => now);
    for (let count = 0; count < SENT; count++) outcomes.write(OUTCOME);
    assert.equal(lines.length, UNKNOWN_CLIENT_LINES);
    now += 60_000;
    outcomes.write(OUTCOME);
    assert.equal(lines.at(-2)?.requests, SENT - UNKNOWN_CLIENT_LINES);
    assert.equal(lines.at(-1)?.status, 401);
  });
});

async function startClosable() {
  const service = await startEchoService();
  return { ...service, [Symbol.asyncDispose]: () => service.close() };
}
