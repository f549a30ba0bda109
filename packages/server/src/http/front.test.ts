import assert from 'node:assert/strict';
import { it } from 'node:test';
import { FakeClock, SequentialIds } from '@cloche/testkit';
import { pino } from 'pino';
import { BEFORE_KEY } from './front.ts';
import { createJsonApp } from './json-app.ts';

it('a server waits for a head as long as the table of fronts says', async () => {
  const app = createJsonApp({ clock: new FakeClock(), ids: new SequentialIds(), log: pino({ level: 'silent' }) });
  assert.equal(app.server.headersTimeout, BEFORE_KEY.seconds * 1000);
  await app.close();
});
