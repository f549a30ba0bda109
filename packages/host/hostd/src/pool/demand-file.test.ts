import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { Demand } from './demand.ts';
import { DemandFile } from './demand-file.ts';
import { kindId, type PoolKind } from './pool-kind.ts';

const RESOURCES = { cpu: 1, memoryBytes: 2 ** 30, diskBytes: 2 ** 31, pids: 512 };
const PYTHON: PoolKind = { templateVersionId: 'tplv_python', network: 'open', resources: RESOURCES };
const OWN: PoolKind = { ...PYTHON, templateVersionId: 'tplv_own', owner: 'org_a' };
const MINUTE = 60_000;

describe('the demand that a restarted hostd knows', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-demand-'));
  const path = join(folder, 'demand.json');
  after(() => rmSync(folder, { recursive: true }));

  /** Saves the demand for a kind, and returns that of a hostd which starts some time later. */
  function restarted(afterMs: number): Demand {
    const before = new Demand(() => 5);
    before.seed([PYTHON]);
    for (const _ of [1, 2]) before.note(OWN);
    new DemandFile(path, before, () => 1_000_000).save();
    const next = new Demand(() => 7);
    new DemandFile(path, next, () => 1_000_000 + afterMs).load();
    next.seed([PYTHON]);
    return next;
  }
  const sharesOf = (demand: Demand) => [...demand.shares(12, () => 1)].map(([id, { share }]) => [id, share]);

  test('the demand that a restarted hostd knows is that of the earlier one, with the owner of each kind', () => {
    const shares = new Map(sharesOf(restarted(1000)) as [string, number][]);
    assert.equal(shares.get(kindId(OWN)), 6, 'the most of one owner');
    assert.equal(shares.get(kindId(PYTHON)), 6);
  });

  test('the demand that a restarted hostd knows lasts no longer than without a restart, also when the clock was set back', () => {
    assert.ok(restarted(10 * MINUTE).remembers(kindId(OWN)));
    assert.ok(!restarted(30 * MINUTE).remembers(kindId(OWN)));
    assert.ok(restarted(-MINUTE).remembers(kindId(OWN)));
  });

  test('the demand that a restarted hostd knows leaves out templates that no longer exist', () => {
    const demand = restarted(1000);
    demand.keepTemplates(new Set([PYTHON.templateVersionId]));
    assert.deepEqual(
      sharesOf(demand).map(([id]) => id),
      [kindId(PYTHON)],
    );
  });

  test('the demand that a restarted hostd knows is none after an unreadable file, or one that says other things', () => {
    for (const text of ['', '{', '{}', '[{}]', '[{"kind":{"templateVersionId":"tplv_a"},"weight":9,"at":0}]']) {
      writeFileSync(path, text);
      const demand = new Demand(() => 0);
      new DemandFile(path, demand).load();
      assert.deepEqual(demand.requested(), [], text);
    }
  });

  test('the demand that a restarted hostd knows is written after a request, and not again without one', () => {
    let now = 0;
    const demand = new Demand(() => now);
    const file = new DemandFile(path, demand);
    demand.note(OWN);
    file.save();
    const first = statSync(path).ino;
    now += 1000;
    file.save();
    assert.equal(statSync(path).ino, first);
    demand.note(OWN);
    file.save();
    assert.match(readFileSync(path, 'utf8'), /"weight":1\.9/);
  });
});
