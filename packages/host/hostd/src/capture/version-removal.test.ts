import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { InstanceKey } from '../instance/instance-key.ts';
import type { InstanceRecord, InstanceRecords } from '../instance/instance-records.ts';
import { CapturedVersions, type VersionContents } from '../storage/captured-versions.ts';
import { Layers } from '../storage/layers.ts';
import { VersionRemoval } from './version-removal.ts';

const CONTENTS: VersionContents = {
  purpose: 'version',
  manifest: { languages: [] },
  base: 'tplv_base',
  layers: [],
};

describe('the removal of a version', () => {
  let folder: string;
  let captured: CapturedVersions;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-removal-'));
    captured = new CapturedVersions(
      join(folder, 'versions'),
      new Layers(join(folder, 'layers'), join(folder, 'mounts')),
    );
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Returns a removal while one waiting instance runs on the version, which `emptyPool` removes. */
  function removalOf(templateVersionId: string, emptyPool: () => void, parked: string[] = []): VersionRemoval {
    let keys = ['pool_1' as InstanceKey];
    const records: Pick<InstanceRecords, 'keys' | 'read'> = {
      keys: () => keys,
      // Sound: the removal reads nothing else of a record.
      read: () => ({ status: 'pooled', source: { kind: 'template', templateVersionId } }) as InstanceRecord,
    };
    return new VersionRemoval({
      records: records as InstanceRecords,
      captured,
      parkedDisks: { versions: () => new Set(parked) },
      emptyPool: async () => {
        emptyPool();
        keys = [];
      },
    });
  }

  it('the removal of a version does nothing to a version that was made again after the given time', async () => {
    const { id } = captured.add(CONTENTS);
    const lastCapturedAt = captured.lastCapturedAt(id) ?? 0;
    captured.add(CONTENTS);
    const removal = removalOf(id, () => assert.fail('the instances of the version stay'));
    await assert.rejects(removal.remove(id, lastCapturedAt), { code: 'version_in_use' });
    assert.equal(captured.find(id)?.id, id);
  });

  for (const [name, timeOf] of [
    ['the given time', (lastCapturedAt: number) => lastCapturedAt],
    ['its begin', () => undefined],
  ] as const) {
    it(`the removal of a version leaves a version that is made again after ${name}, while it removes the instances that wait`, async () => {
      const { id } = captured.add(CONTENTS);
      const lastCapturedAt = captured.lastCapturedAt(id) ?? 0;
      const removal = removalOf(id, () => captured.add(CONTENTS));
      await assert.rejects(removal.remove(id, timeOf(lastCapturedAt)), { code: 'version_in_use' });
      assert.equal(captured.find(id)?.id, id);
    });
  }

  it('the removal of a version does nothing to a version that a kept disk needs', async () => {
    const { id } = captured.add(CONTENTS);
    const removal = removalOf(id, () => assert.fail('the instances of the version stay'), [id]);
    await assert.rejects(removal.remove(id, captured.lastCapturedAt(id)), { code: 'version_in_use' });
    await removal.removeUnused(-60_000);
    assert.equal(captured.find(id)?.id, id);
  });

  it('the removal of a version removes a version that was not made again', async () => {
    const { id } = captured.add(CONTENTS);
    await removalOf(id, () => undefined).remove(id, captured.lastCapturedAt(id));
    assert.equal(captured.find(id), undefined);
  });
});
