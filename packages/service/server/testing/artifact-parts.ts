/** Artifacts of tests, whose contents are files of the temporary folder. */
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ArtifactContents } from '../src/features/artifacts/artifact-contents.ts';
import { KeepArtifact } from '../src/features/artifacts/keep-artifact.ts';
import { LocalStore } from '../src/features/artifacts/store/local-store.ts';
import { Staging } from '../src/features/artifacts/store/staging.ts';
import { contentLocksOf } from './coordination.ts';
import type { SandboxesWorld } from './sandboxes.ts';
import { SILENT } from './silent.ts';

/** Made with the first artifact. */
const ARTIFACTS = join(tmpdir(), `cloche-artifacts-${process.pid}`);

export function artifactContentsOf(world: SandboxesWorld): ArtifactContents {
  return new ArtifactContents({
    ...world,
    locks: contentLocksOf(world),
    store: new LocalStore(ARTIFACTS),
    log: SILENT,
  });
}

export function keepArtifactOf(world: SandboxesWorld): KeepArtifact {
  const settings = {
    url: '',
    stagingDir: ARTIFACTS,
    maxBytes: 2 ** 20,
    retentionMs: undefined,
    publicUrl: undefined,
  };
  const parts = { contents: artifactContentsOf(world), staging: new Staging(ARTIFACTS, world.ids), settings };
  return new KeepArtifact({ ...world, ...parts });
}
