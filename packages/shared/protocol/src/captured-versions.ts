/** Messages between server and hostd about template versions that are made from sandboxes. */
import { type Static, Type } from 'typebox';
import { Count, MAX_LISTED, Ordinal, Word } from './bounded.ts';

export const VersionId = Type.String({ pattern: '^tplv_[a-z0-9]{1,64}$' });

/** Most layers of a version, its parents' included. A capture of a sandbox that has as many is refused. */
export const MAX_LAYERS = 32;

/** Account that runs the code of a sandbox. */
const VersionUser = Type.Object(
  {
    uid: Type.Integer({ minimum: 0, maximum: 65_534 }),
    gid: Type.Integer({ minimum: 0, maximum: 65_534 }),
    home: Type.String({ pattern: '^/[^\\u0000]{0,255}$' }),
  },
  { additionalProperties: false },
);

/** Properties of a captured version that hostd and the agents of its sandboxes need. The server keeps all others. */
export const CapturedManifest = Type.Object(
  {
    /** Languages whose kernels can run; none for a version with commands alone. */
    languages: Type.Array(Type.String({ pattern: '^[a-z]{1,32}$' }), { maxItems: 16 }),
    /** Environment variables of every process in a sandbox of this version. */
    env: Type.Optional(
      Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,255}$' }), Type.String({ maxLength: 16_384 }), {
        maxProperties: 256,
        additionalProperties: false,
      }),
    ),
    /** Modules that a Python kernel has loaded before code imports them. */
    warm: Type.Optional(
      Type.Object(
        {
          imports: Type.Array(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_.]{0,127}$' }), { maxItems: 32 }),
        },
        { additionalProperties: false },
      ),
    ),
    /** Account of kernels and commands; 1000 with the home `/home/user` by default. */
    user: Type.Optional(VersionUser),
  },
  { additionalProperties: false },
);
export type CapturedManifest = Static<typeof CapturedManifest>;

/**
 * Reason for a version. hostd removes a `snapshot` that was not used for `CLOCHE_CACHE_RETENTION_MS`, and leaves every
 * `version` to the server.
 */
export const VersionPurpose = Type.Union([Type.Literal('snapshot'), Type.Literal('version')]);

/**
 * Makes a version of an instance's files. All processes of the instance are killed first, so that nothing changes
 * meanwhile, and nothing of the instance is left afterwards, also if the capture fails.
 *
 * `root`: with `changes`, the version is the instance's own version with what the instance changed. With `image`, the
 * folder `/image` of the instance becomes the root, without any files of the instance's own version; such an instance
 * must not run on a captured version.
 */
export const CaptureInstance = Type.Object(
  {
    root: Type.Union([Type.Literal('changes'), Type.Literal('image')]),
    purpose: VersionPurpose,
    manifest: CapturedManifest,
    /** Most bytes that the layer may have. */
    maxBytes: Type.Optional(Ordinal),
  },
  { additionalProperties: false },
);
export type CaptureInstance = Static<typeof CaptureInstance>;

/** Makes a version with the files of `from`, which is a captured version or one that was built on the host. */
export const DeriveVersion = Type.Object(
  { from: VersionId, purpose: VersionPurpose, manifest: CapturedManifest },
  { additionalProperties: false },
);
export type DeriveVersion = Static<typeof DeriveVersion>;

/** A version made from a sandbox. It never changes. */
export const CapturedVersion = Type.Object({
  /** `tplv_` and the first 20 hex digits of `digest`. Instances are launched from it like from any other version. */
  id: VersionId,
  /** SHA-256 of the manifest, of the version below and of the digests of the layers. */
  digest: Word,
  purpose: VersionPurpose,
  manifest: CapturedManifest,
  /** The version below the layers, which was built on the host. Absent if a layer holds the whole root. */
  base: Type.Optional(Word),
  /** SHA-256 of each layer, the uppermost first. Versions share layers. */
  layers: Type.Array(Type.Object({ digest: Word, bytes: Count }), { maxItems: MAX_LAYERS }),
  capturedAt: Word,
});
export type CapturedVersion = Static<typeof CapturedVersion>;
export const CapturedVersionList = Type.Object({ versions: Type.Array(CapturedVersion, { maxItems: MAX_LISTED }) });

/** Removes a version, unless it was captured again after `madeAt`, the time that `CapturedVersionRefList` had for it. */
export const RemoveVersionQuery = Type.Object(
  {
    madeAt: Type.String({ pattern: '^[0-9]{1,15}$' }),
  },
  { additionalProperties: false },
);
export type RemoveVersionQuery = Static<typeof RemoveVersionQuery>;

/**
 * A version that the server has to remove. `madeAt` is the time by the host's clock when it was captured or derived last,
 * and increases each time.
 */
const CapturedVersionRef = Type.Object({ id: VersionId, madeAt: Count });
export type CapturedVersionRef = Static<typeof CapturedVersionRef>;
export const CapturedVersionRefList = Type.Object({
  versions: Type.Array(CapturedVersionRef, { maxItems: MAX_LISTED }),
});
