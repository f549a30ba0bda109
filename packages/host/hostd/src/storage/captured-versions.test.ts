import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { CapturedVersions, type LayerOfVersion, type VersionContents } from './captured-versions.ts';
import { Layers } from './layers.ts';

const DAY = 86_400_000;
const layer = (digit: string): LayerOfVersion => ({ digest: digit.repeat(64), folder: '/' });
const contents = (purpose: VersionContents['purpose'], ...layers: LayerOfVersion[]): VersionContents => ({
  purpose,
  manifest: { languages: [] },
  base: 'tplv_base',
  layers,
});

describe('captured versions', () => {
  let folder: string;
  let now: number;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-versions-'));
    now = 100 * DAY;
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const openLayers = () => new Layers(join(folder, 'layers'), join(folder, 'mounts'));
  const open = () => new CapturedVersions(join(folder, 'versions'), openLayers(), () => now);
  const files = (name: string) => readdirSync(join(folder, name)).sort();

  /** Stores a layer as a capture does. */
  function store(layers: Layers, { digest }: LayerOfVersion): void {
    const draft = layers.makeDraft('a');
    writeFileSync(draft.image, 'blocks');
    layers.publish(draft.folder, { digest, bytes: 6, firstId: 1 });
  }

  /** Opens the versions, and stores layers for the test to use. */
  function openWith(...stored: LayerOfVersion[]): CapturedVersions {
    const layers = openLayers();
    const versions = new CapturedVersions(join(folder, 'versions'), layers, () => now);
    for (const each of stored) store(layers, each);
    return versions;
  }

  it('captured versions are kept across a restart, and equal contents are one version', () => {
    const versions = openWith(layer('a'));
    const added = versions.add(contents('version', layer('a')));
    assert.deepEqual(added.layers, [{ digest: 'a'.repeat(64), bytes: 6 }]);
    now += DAY;
    assert.deepEqual(versions.add(contents('version', layer('a'))), added);
    assert.notEqual(versions.add(contents('snapshot', layer('a'))).id, added.id);
    assert.deepEqual([...open().bases()], ['tplv_base']);
    assert.equal(open().list().length, 2);
  });

  it('captured versions share layers, which go with the last version that has them', () => {
    const versions = openWith(layer('a'), layer('b'));
    const lower = versions.add(contents('snapshot', layer('a')));
    const upper = versions.add(contents('version', layer('b'), layer('a')));
    versions.remove(lower.id);
    assert.deepEqual(files('layers'), [layer('a').digest, layer('b').digest]);
    versions.remove(upper.id);
    versions.remove(upper.id);
    assert.deepEqual([files('layers'), files('versions')], [[], []]);
  });

  it('captured versions are not made of layers that were removed after they were found', () => {
    const versions = openWith(layer('a'));
    const { id } = versions.add(contents('version', layer('a')));
    const found = versions.find(id) ?? assert.fail('the version is gone');
    versions.remove(id);
    assert.throws(() => versions.add({ ...found, base: 'tplv_base' }), { code: 'template_not_found' });
    assert.deepEqual([versions.list(), files('versions')], [[], []]);
  });

  it('captured versions leave nothing of an interrupted capture after a restart', () => {
    const layers = openLayers();
    layers.makeDraft('interrupted');
    // Published, but its version was not written.
    store(layers, layer('c'));
    open();
    assert.deepEqual(files('layers'), []);
    writeFileSync(join(folder, 'versions', 'tplv_x.draft'), '{');
    open();
    assert.deepEqual(files('versions'), []);
  });

  it('captured versions are gone if a layer is gone', () => {
    const { id } = openWith(layer('a')).add(contents('version', layer('a')));
    rmSync(join(folder, 'layers', layer('a').digest), { recursive: true });
    assert.equal(open().find(id), undefined);
    assert.deepEqual(files('versions'), []);
  });

  it('captured versions count as used when they are found, also after a restart; only unused snapshots expire', () => {
    const versions = openWith(layer('a'));
    const snapshot = versions.add(contents('snapshot', layer('a')));
    const version = versions.add(contents('version', layer('a')));
    for (const { id } of [snapshot, version]) utimesSync(join(folder, 'versions', `${id}.json`), 1, 1);
    assert.deepEqual(open().snapshotsUnusedSince(now), [snapshot.id]);
    open().find(snapshot.id);
    assert.deepEqual(open().snapshotsUnusedSince(now), []);
    assert.deepEqual(open().snapshotsUnusedSince(now + 1), [snapshot.id]);
  });

  it('captured versions are made later each time, also within a millisecond, after a restart and when the clock was set back', () => {
    const versions = openWith(layer('a'));
    const times: number[] = [];
    const make = (into: CapturedVersions) => {
      const { id } = into.add(contents('version', layer('a')));
      assert.deepEqual(into.listRefs(), [{ id, madeAt: into.lastCapturedAt(id) }]);
      times.push(into.lastCapturedAt(id) ?? 0);
      return id;
    };
    versions.add(contents('snapshot', layer('a')));
    make(versions);
    versions.remove(make(versions));
    make(versions);
    now -= DAY;
    make(open());
    assert.deepEqual(
      times,
      [...new Set(times)].sort((one, other) => one - other),
    );
    assert.equal(times.length, 4);
  });

  it('captured versions are hidden from launches while they are removed', () => {
    const versions = openWith(layer('a'));
    const { id } = versions.add(contents('version', layer('a')));
    {
      using _ = versions.retire(id);
      assert.deepEqual([versions.find(id), versions.list(), versions.isRetired(id)], [undefined, [], true]);
    }
    assert.equal(versions.find(id)?.id, id);
  });
});
