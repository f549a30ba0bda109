/**
 * Kills the process of a server at random moments of its first start. `CLOCHE_TEST_KILL_ROUNDS=50` does so fifty times,
 * and `CLOCHE_TEST_KILL_SEED` repeats moments.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { dataPaths } from '@cloche/layout';

import { compileCache } from '@cloche/testkit/compile-cache';
import { eventually } from '@cloche/testkit/eventually';
import { Random } from '@cloche/testkit/random';
import { BOOTSTRAP_KEY } from '../testing/bootstrap-key.ts';
import { callApi } from '../testing/call-api.ts';
import { SERVER_SETTINGS } from '../testing/server-settings.ts';

const ROUNDS = Number(process.env.CLOCHE_TEST_KILL_ROUNDS ?? 2);
const SEED = Number(process.env.CLOCHE_TEST_KILL_SEED ?? randomInt(2 ** 32));
/** Longest time of a start, on a machine with other work. */
const START_MS = 180_000;
/** Tables that the first start fills, and no other one without requests. */
const FILLED = ['orgs', 'projects', 'api_keys', 'events', 'audit_events', 'server_secrets', 'kysely_migration'];

const folder = mkdtempSync(join(tmpdir(), 'cloche-first-start-'));
const children: ChildProcess[] = [];
after(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

/** Starts the server of a data folder. */
function start(dataDir: string) {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts')], {
    env: {
      CLOCHE_DATA_DIR: dataDir,
      CLOCHE_RUN_DIR: `${dataDir}-run`,
      CLOCHE_BOOTSTRAP_API_KEY: BOOTSTRAP_KEY,
      ...SERVER_SETTINGS,
      ...compileCache(),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.push(child);
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    text += chunk;
  });
  const served = () => /"url":"([^"]+)","msg":"serving"/.exec(text)?.[1];
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  return {
    /** Resolves when the server has made its first file, or has ended. */
    async began(): Promise<void> {
      const { sqliteFile } = dataPaths(dataDir);
      await eventually(() => existsSync(`${sqliteFile}-lock`) || hasEnded(), { because: 'it began', within: START_MS });
    },
    async url(): Promise<string> {
      await eventually(() => served() !== undefined || hasEnded(), { because: 'it serves', within: START_MS });
      const url = served();
      assert.ok(url !== undefined, text);
      return url;
    },
    async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
      if (hasEnded()) return;
      child.kill(signal);
      await once(child, 'exit');
    },
  };
}

/** Starts the server of a data folder to the end, stops it, and returns what it left there. */
async function completeStart(dataDir: string): Promise<{ files: string[]; rows: Record<string, unknown> }> {
  const server = start(dataDir);
  const { status, body } = await callApi(`${await server.url()}/v1/projects`, 'GET', { key: BOOTSTRAP_KEY });
  assert.deepEqual([status, body.data.length], [200, 1]);
  await server.end('SIGTERM');
  using db = new DatabaseSync(dataPaths(dataDir).sqliteFile, { readOnly: true });
  const count = (table: string) => db.prepare(`select count(*) as rows from ${table}`).get()?.rows;
  const files = readdirSync(dataDir, { recursive: true, withFileTypes: true });
  return {
    files: files.map(({ parentPath, name }) => join(parentPath, name).slice(dataDir.length)).sort(),
    rows: Object.fromEntries(FILLED.map((table) => [table, count(table)])),
  };
}

it('a first start that is killed at any moment is completed by the next one, which leaves nothing else behind', async (t) => {
  t.diagnostic(`CLOCHE_TEST_KILL_SEED=${SEED}`);
  const random = new Random(SEED);
  const whole = join(folder, 'whole');
  const first = start(whole);
  await first.began();
  const beganAt = performance.now();
  await first.url();
  const startMs = performance.now() - beganAt;
  await first.end('SIGTERM');
  const expected = await completeStart(whole);
  for (let round = 1; round <= ROUNDS; round++) {
    const dataDir = join(folder, `killed-${round}`);
    const killed = start(dataDir);
    await killed.began();
    const afterMs = random.next() * startMs;
    await delay(afterMs);
    await killed.end('SIGKILL');
    assert.deepEqual(await completeStart(dataDir), expected, `killed after ${afterMs} of ${startMs} ms`);
    rmSync(dataDir, { recursive: true });
  }
});
