import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, before, describe, it } from 'node:test';
import { execa } from 'execa';
import { type PolicyWorld, policyWorld } from './support/policy-world.ts';

const CLOCHE = new URL('../../packages/clients/cli/bin/cloche.mjs', import.meta.url).pathname;
const ALLOWED = 'http to an allowed host by urllib';
const DENIED = 'https to a denied host by urllib';

interface Decision {
  sandboxId: string;
  verdict: string;
  host: string;
  bytesDown?: number;
}

let world: PolicyWorld;
before(async () => {
  world = await policyWorld();
  await world.attack('allow', [ALLOWED, DENIED]);
});
after(() => world?.[Symbol.asyncDispose]());

function egressLog(...args: string[]) {
  const { runDir: CLOCHE_RUN_DIR, dataDir: CLOCHE_DATA_DIR } = world.service;
  const env = {
    PATH: process.env.PATH,
    HOME: '/nonexistent',
    XDG_CACHE_HOME: '/dev/null',
    CLOCHE_RUN_DIR,
    CLOCHE_DATA_DIR,
  };
  return execa(process.execPath, [CLOCHE, 'admin', 'egress-log', ...args], { env, extendEnv: false, reject: false });
}

const parse = (lines: string): Decision[] =>
  lines
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));

describe('the traffic of a gated sandbox', () => {
  it('the traffic of a gated sandbox has an outcome for each request, with its host, verdict and bytes', async () => {
    const { stdout } = await egressLog('--json', '--sandbox', world.ids.allow);
    const decisions = parse(stdout);
    assert.ok(decisions.every(({ sandboxId }) => sandboxId === world.ids.allow));
    const permitted = decisions.find(({ verdict }) => verdict === 'permitted');
    assert.ok((permitted?.bytesDown ?? 0) > 0, stdout);
    assert.ok(
      decisions.some(({ verdict, host }) => verdict === 'denied' && host.includes('denied')),
      stdout,
    );
    assert.deepEqual(parse((await egressLog('--json', '--sandbox', 'sbx_none')).stdout), []);
  });

  it('the traffic of a gated sandbox is a table for people, and goes on while it is followed', async () => {
    assert.match((await egressLog()).stdout, /^TIME +SANDBOX +VERDICT[\s\S]*denied/);
    const following = egressLog('--follow', '--json', '--sandbox', world.ids.deny);
    const lines = createInterface({ input: following.stdout });
    const first = once(lines, 'line');
    await world.attack('deny', [DENIED]);
    assert.equal(parse(String((await first)[0]))[0]?.sandboxId, world.ids.deny);
    following.kill('SIGINT');
    await following;
  });

  it('the traffic of a gated sandbox has counters that the server shows', async () => {
    const { body } = await world.service.api.get('/metrics');
    assert.match(body, /^cloche_egress_decisions_total\{[^}]*verdict="denied"[^}]*\} [1-9]/m);
    assert.match(body, /^cloche_egress_bytes_total\{direction="down"\} [1-9]/m);
    assert.match(body, /^cloche_sandboxes\{/m);
  });
});
