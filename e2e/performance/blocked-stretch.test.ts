/** Measures by the longest answer of `/healthz`. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';
import { hostileRequests, sendAll } from '../../bench/src/hostile-requests.ts';
import { healthOf, longestWait } from '../../bench/src/longest-wait.ts';
import { ALL_PROTOCOLS, type TestService, testService } from '../support/service.ts';

const REQUESTS = 40;
const TIMES = 5;
/** A wait that other processes may cause. */
const SHORT_MS = 40;
const ATTEMPTS = 3;

let service: TestService;
let port: number;
before(async () => {
  service = await testService(ALL_PROTOCOLS);
  port = Number(new URL(service.url).port);
});
after(() => service?.close());

it('hostile requests keep the server from others at most five times as long as honest ones', async (t) => {
  for (const { name, hostile, honest } of hostileRequests()) {
    const seen: string[] = [];
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const quietMs = await longestWait(healthOf(port), () => sendAll(port, honest, REQUESTS));
      const busyMs = await longestWait(healthOf(port), () => sendAll(port, hostile, REQUESTS));
      seen.push(`${busyMs.toFixed(1)} ms, honest ${quietMs.toFixed(1)} ms`);
      if (busyMs <= Math.max(TIMES * quietMs, SHORT_MS)) break;
      assert.ok(attempt + 1 < ATTEMPTS, `${name}: ${seen.join('; ')}`);
    }
    t.diagnostic(`${name}: ${seen.join('; ')}`);
  }
});
