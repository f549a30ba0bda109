import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { identifyProcess } from '../linux/process-identity.ts';
import { type InstanceKey, instanceKey, pooledInstanceKey } from './instance-key.ts';
import { InstanceRecords } from './instance-records.ts';

const INIT = identifyProcess(process.pid) ?? assert.fail('not alive');
const DEAD = { ...INIT, startTicks: INIT.startTicks + 1 };
const RUNNING = { startedAt: '2026-11-30T00:00:00Z', slot: 1, loopDevice: 0, diskBytes: 1, init: INIT };
const NAME = { sandboxId: 'sbx_1', generation: 1 };
const CLAIMED = { ...NAME, network: { mode: 'unrestricted' } };
const SOURCE = { kind: 'template', templateVersionId: 'tplv_0123456789abcdef0123' } as const;

/** Reads one record from the disk. */
function withRecord<T>(key: InstanceKey, record: object, act: (records: InstanceRecords) => T): T {
  const dir = mkdtempSync(join(tmpdir(), 'cloche-records-'));
  try {
    mkdirSync(join(dir, key));
    writeFileSync(join(dir, key, 'instance.json'), JSON.stringify(record));
    return act(new InstanceRecords(dir));
  } finally {
    rmSync(dir, { recursive: true });
  }
}

describe('the records of instances', () => {
  const key = instanceKey(NAME);
  const pooled = pooledInstanceKey();
  const rows = [
    { title: 'a claimed one whose first process lives', key, record: { status: 'live', ...CLAIMED }, live: true },
    { title: 'a claimed one whose first process ended', key, record: { status: 'live', ...CLAIMED, init: DEAD } },
    { title: 'one that is being removed', key, record: { status: 'ending', ...CLAIMED } },
    { title: 'one that waits in the pool', key: pooled, record: { status: 'pooled' }, pooled: true },
    { title: 'one of the pool whose first process ended', key: pooled, record: { status: 'pooled', init: DEAD } },
    { title: 'one that is being launched', key, record: { status: 'launching' } },
  ];
  for (const row of rows) {
    it(`records say whether an instance lives: ${row.title}`, () => {
      withRecord(row.key, { ...RUNNING, source: SOURCE, ...row.record }, (records) => {
        assert.equal(records.read(row.key)?.status, row.record.status);
        assert.equal(records.findLive(row.key) !== undefined, row.live ?? false);
        assert.equal(records.findPooled(row.key) !== undefined, row.pooled ?? false);
      });
    });
  }
});
