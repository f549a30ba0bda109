import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { LIMITS, type OrgId, type TemplateBuildId } from '@cloche/contract';
import { FakeClock, SequentialIds } from '@cloche/testkit';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';
import { ORG } from '../../../../testing/seeded-organizations.ts';
import { SILENT } from '../../../../testing/silent.ts';
import { Changes } from '../../../platform/base/changes.ts';
import { LocalStore } from '../../artifacts/store/local-store.ts';
import { Staging } from '../../artifacts/store/staging.ts';
import { ImageLayerRepository, type LayerBlob } from './image-layer-repository.ts';
import { ImageLayers, type LayerPlace } from './image-layers.ts';

const OTHER_ORG = 'org_other' as OrgId;
const DAY_MS = 86_400_000;

let folder: string;
let world: SandboxesWorld;
let clock: FakeClock;
let builds = 0;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-layers-'));
  world = await openSandboxes();
  clock = new FakeClock(10 * DAY_MS);
  await world.db.insertInto('orgs').values({ id: OTHER_ORG, name: 'other', created_at: 0 }).execute();
  const template = { id: 'tpl_1', org_id: ORG, slug: 'a', description: '', languages: '[]', created_at: 0 };
  const none = { default_version_id: null, deleted_at: null, idempotency_record_id: null };
  await world.db
    .insertInto('custom_templates')
    .values({ ...template, ...none })
    .execute();
});
afterEach(async () => {
  await world[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

/** The layers as one server has them. All servers share the store and the database. */
function layersOf(maxBytes = 1_000_000): ImageLayers {
  return new ImageLayers({
    repository: new ImageLayerRepository(world.db, world.transactions),
    store: new LocalStore(join(folder, 'layers')),
    staging: new Staging(join(folder, 'staging'), new SequentialIds()),
    changes: new Changes<string>(),
    maxBytes,
    clock,
    log: SILENT,
  });
}

interface Layer extends LayerBlob {
  readonly bytes: Buffer;
}

function layer(bytes: Buffer = randomBytes(1000)): Layer {
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  return { digest, sizeBytes: bytes.length, bytes };
}

/** A running build, whose claim a server renews. */
async function build(orgId: OrgId = ORG, claimedUntil = Number.MAX_SAFE_INTEGER) {
  const buildId = `bld_${++builds}` as TemplateBuildId;
  const times = { created_at: 0, started_at: 0, finished_at: null, next_attempt_at: 0 };
  const none = { sandbox_id: null, template_version_id: null, error: null, idempotency_record_id: null };
  const counts = { launches: 1, failures: 0 };
  const what = { template_id: 'tpl_1', template_slug: 'a', from_version_id: 'tplv_1', plan: '{}', steps: '[]' };
  const claim = { claimed_by: 'server:1', claimed_until: claimedUntil };
  const row = { id: buildId, org_id: orgId, status: 'running', ...what, ...times, ...none, ...counts, ...claim };
  await world.db.insertInto('template_builds').values(row).execute();
  return { orgId, buildId, signal: new AbortController().signal };
}

/** A sandbox and its registry, which counts what it sends. */
class Place implements LayerPlace {
  readonly files = new Map<string, Buffer>();
  readonly downloaded: string[] = [];
  readonly #registry: ReadonlyMap<string, Buffer>;
  readonly #sends: () => Promise<void>;

  constructor(layers: readonly Layer[], sends: () => Promise<void> = () => Promise.resolve()) {
    this.#registry = new Map(layers.map(({ digest, bytes }) => [digest, bytes]));
    this.#sends = sends;
  }

  async download(layers: readonly LayerBlob[]): Promise<void> {
    await this.#sends();
    for (const { digest } of layers) {
      this.downloaded.push(digest);
      this.files.set(digest, this.#registry.get(digest) ?? assert.fail(digest));
    }
  }

  async open({ digest }: LayerBlob): Promise<Readable> {
    return Readable.from([this.files.get(digest)], { objectMode: false });
  }

  async write({ digest }: LayerBlob, content: Readable): Promise<boolean> {
    try {
      this.files.set(digest, await buffer(content));
      return true;
    } catch {
      return false;
    }
  }
}

const stored = () => readdirSync(join(folder, 'layers'), { recursive: true }).map(String);
/** Names of contents in the store: of 64 digits. */
const contents = () => stored().flatMap((path) => path.match(/[0-9a-f]{64}$/)?.[0] ?? []);

describe('layers of images', () => {
  it('layers of images are downloaded once, for all images and builds of an organization that have them', async () => {
    const [base, own, other] = [layer(), layer(), layer()];
    const layers = layersOf();
    const first = new Place([base, own]);
    await layers.bring([base, own], first, await build());
    assert.deepEqual(first.downloaded, [base.digest, own.digest]);

    const second = new Place([base, other]);
    await layersOf().bring([base, other], second, await build());
    assert.deepEqual(second.downloaded, [other.digest], 'another server, another image');
    assert.deepEqual([second.files.get(base.digest), second.files.get(other.digest)], [base.bytes, other.bytes]);
    assert.equal(contents().length, 3);
  });

  it('layers of images are those of one organization: another one downloads the same bytes itself', async () => {
    const base = layer();
    const layers = layersOf();
    await layers.bring([base], new Place([base]), await build());
    const place = new Place([base]);
    await layers.bring([base], place, await build(OTHER_ORG));
    assert.deepEqual(place.downloaded, [base.digest]);
    assert.equal(contents().length, 2, 'each has a content of its own');
  });

  it('layers of images are awaited while another build downloads them, and downloaded by two builds that await each other', async () => {
    const [a, b, c] = [layer(), layer(), layer()];
    const layers = layersOf();
    const sending = Promise.withResolvers<void>();
    const both = Promise.withResolvers<void>();
    let open = 0;
    const sends = () => {
      if (++open === 2) both.resolve();
      return sending.promise;
    };
    const [one, two] = [new Place([a, b, c], sends), new Place([a, b, c], sends)];
    const [ofOne, ofTwo] = [await build(), await build()];
    const begun = [layers.bring([a, b], one, ofOne)];
    begun.push(layers.bring([b, c, a], two, ofTwo));
    await both.promise;
    sending.resolve();
    await Promise.all(begun);
    assert.deepEqual([...one.downloaded, ...two.downloaded].sort(), [a, b, c].map(({ digest }) => digest).sort());
    for (const place of [one, two]) assert.deepEqual(place.files.get(b.digest), b.bytes);
  });

  /** Why the build that downloads a layer leaves it to the next one. */
  const LOST: Record<string, () => Promise<Awaited<ReturnType<typeof build>>>> = {
    'its server has ended': () => build(ORG, 0),
    'it was canceled': async () => {
      const ended = await build();
      await world.db
        .updateTable('template_builds')
        .set({ status: 'canceled' })
        .where('id', '=', ended.buildId)
        .execute();
      return ended;
    },
    'its row was deleted': async () => {
      const ended = await build();
      await world.db.deleteFrom('template_builds').where('id', '=', ended.buildId).execute();
      return ended;
    },
  };
  for (const [why, owner] of Object.entries(LOST))
    it(`layers of images are taken over from a build that does not go on: ${why}`, async () => {
      const base = layer();
      const repository = new ImageLayerRepository(world.db, world.transactions);
      const lost = await owner();
      assert.equal((await repository.claim(lost, base, 1e6, clock.now())).status, 'own');
      const place = new Place([base]);
      await layersOf().bring([base], place, await build());
      assert.deepEqual(place.downloaded, [base.digest]);
      assert.equal((await repository.claim(await build(), base, 1e6, clock.now())).status, 'stored');
    });

  it('layers of images are taken over from a build whose download fails, which wakes those that await it', async () => {
    const base = layer();
    const layers = layersOf();
    const failing = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const broken = new Place([base], () => {
      begun.resolve();
      return failing.promise;
    });
    const first = layers.bring([base], broken, await build());
    await begun.promise;
    const place = new Place([base]);
    const second = layers.bring([base], place, await build());
    failing.reject(new Error('the registry ends'));
    await assert.rejects(first, /the registry ends/);
    await second;
    assert.deepEqual(place.downloaded, [base.digest]);
  });

  /** What a sandbox, or a registry, can give in place of a layer. */
  const LIES: Record<string, (honest: Buffer) => Buffer> = {
    'other bytes of the same size': (honest) => Buffer.alloc(honest.length, 'x'),
    'fewer bytes': (honest) => honest.subarray(1),
    'more bytes': (honest) => Buffer.concat([honest, Buffer.from('x')]),
    nothing: () => Buffer.alloc(0),
    'one bit that differs': (honest) => Buffer.from(honest.map((byte, index) => (index === 0 ? byte ^ 1 : byte))),
  };
  for (const [lie, told] of Object.entries(LIES))
    it(`layers of images never count with ${lie} than their digest is of`, async () => {
      const honest = layer();
      const layers = layersOf();
      await layers.bring([honest], new Place([{ ...honest, bytes: told(honest.bytes) }]), await build());
      const place = new Place([honest]);
      await layers.bring([honest], place, await build());
      assert.deepEqual([place.downloaded, place.files.get(honest.digest)], [[honest.digest], honest.bytes]);
    });

  it('layers of images that were damaged in the store are downloaded again', async () => {
    const base = layer();
    const layers = layersOf();
    await layers.bring([base], new Place([base]), await build());
    const [path = assert.fail()] = stored().filter((each) => /[0-9a-f]{64}$/.test(each));
    writeFileSync(join(folder, 'layers', path), Buffer.alloc(base.sizeBytes));
    for (const downloads of [1, 1, 0]) {
      const place = new Place([base]);
      await layers.bring([base], place, await build());
      assert.deepEqual([place.downloaded.length, place.files.get(base.digest)], [downloads, base.bytes]);
    }
  });

  it('layers of images have a limit together: the least recently used make room, and those in use stay', async () => {
    const [a, b, c] = [layer(), layer(), layer()];
    const layers = layersOf(2500);
    const downloads = async (...wanted: Layer[]) => {
      const place = new Place(wanted);
      await layers.bring(wanted, place, await build());
      return place.downloaded.length;
    };
    assert.equal(await downloads(a, b), 2);
    assert.deepEqual([await downloads(c), await downloads(c)], [1, 1], 'no room: a and b may be in use');
    clock.advance(LIMITS.templateBuildMs + 1);
    assert.deepEqual([await downloads(b), await downloads(c), await downloads(c)], [0, 1, 0], 'a makes room');
    assert.equal(await downloads(layer(randomBytes(3000))), 1, 'one that is larger than all');
    assert.deepEqual([await downloads(b), await downloads(a)], [0, 1]);
    await layers.sweep(0);
    assert.equal(contents().length, 2);
  });

  it('layers of images are removed when no build has used them for a time, with what killed servers left', async () => {
    const [a, b] = [layer(), layer()];
    const layers = layersOf();
    await layers.bring([a, b], new Place([a, b]), await build());
    const repository = new ImageLayerRepository(world.db, world.transactions);
    await repository.claim(await build(ORG, 0), layer(), 1e6, clock.now());
    const orphan = 'f'.repeat(64);
    writeFileSync(join(folder, 'staged'), 'x');
    const sha256 = createHash('sha256').update('x').digest('hex');
    await new LocalStore(join(folder, 'layers')).put(join(folder, 'staged'), { sha256, sizeBytes: 1, name: orphan });
    assert.equal(await layers.sweep(clock.now()), 0, 'a build may still use them');
    assert.ok(!contents().includes(orphan));
    clock.advance(2 * DAY_MS);
    await layers.bring([b], new Place([]), await build());
    assert.equal(await layers.sweep(clock.now() - DAY_MS), 2);
    assert.equal(contents().length, 1);
    await layers.bring([b], new Place([]), await build());
  });
});
