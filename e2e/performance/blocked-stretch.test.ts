/** Measures by the longest answer of `/healthz`. */
import { after, before, it } from 'node:test';
import { hostileRequests, sendAll } from '../../bench/src/hostile-requests.ts';
import { healthOf, longestWait } from '../../bench/src/longest-wait.ts';
import { ALL_PROTOCOLS, type TestService, testService } from '../support/service.ts';
import { compareWaits } from './compare-waits.ts';

const REQUESTS = 40;

let service: TestService;
let port: number;
before(async () => {
  service = await testService(ALL_PROTOCOLS);
  port = Number(new URL(service.url).port);
});
after(() => service?.close());

it('hostile requests keep the server from others at most five times as long as honest ones', async (t) => {
  for (const { name, hostile, honest } of hostileRequests()) {
    const quiet = () => longestWait(healthOf(port), () => sendAll(port, honest, REQUESTS));
    const busy = () => longestWait(healthOf(port), () => sendAll(port, hostile, REQUESTS));
    t.diagnostic(await compareWaits(name, { quiet, busy }));
  }
});
