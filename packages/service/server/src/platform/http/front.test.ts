import assert from 'node:assert/strict';
import { it } from 'node:test';
import { FakeClock, SequentialIds } from '@cloche/testkit';
import { pino } from 'pino';
import { BEFORE_KEY, OWN_HEAD_SECONDS } from './front.ts';
import { createJsonApp } from './json-app.ts';

const deps = { clock: new FakeClock(), ids: new SequentialIds(), log: pino({ level: 'silent' }) };

it('a server waits for a head as long as the table of fronts says, and for a body for a minute', async () => {
  for (const [given, seconds] of [
    [{}, BEFORE_KEY.seconds],
    [{ headSeconds: OWN_HEAD_SECONDS }, OWN_HEAD_SECONDS],
  ] as const) {
    const app = createJsonApp({ ...deps, ...given });
    const { headersTimeout, requestTimeout } = app.server;
    assert.deepEqual([headersTimeout, requestTimeout], [seconds * 1000, 60_000]);
    await app.close();
  }
});
