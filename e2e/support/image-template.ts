import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TemplateBuild, TemplateRecipe } from '@cloche/contract';
import { Cloche } from '@cloche/sdk';
import { writeLayout } from '../../packages/shared/image-archive/testing/make-image.ts';
import type { TestService } from './service.ts';

export interface TestImage {
  /** Tar archives of its layers, the lowest first. */
  readonly layers: readonly Buffer[];
  readonly config: Record<string, unknown>;
}

/** Makes an image, uploads it as an artifact, and builds a template of it. Returns the ended build. */
export async function buildTemplateOf(
  { layers, config }: TestImage,
  slug: string,
  recipe: Omit<TemplateRecipe, 'from'>,
  service: TestService,
): Promise<TemplateBuild> {
  const cloche = new Cloche({ url: service.url, apiKey: service.apiKey });
  const folder = mkdtempSync(join(tmpdir(), 'cloche-image-'));
  try {
    const archive = join(folder, 'image.tar');
    // Takes a third of the processor time of gzip, with which template-builds tests a small image.
    writeLayout(archive, { layers, config, compression: 'zstd' });
    const builder = await cloche.sandboxes.create({ template: 'node', ttlMs: 600_000 });
    await builder.files.write('/tmp/image.tar', readFileSync(archive));
    const { id: artifactId } = await builder.artifacts.export('/tmp/image.tar');
    await builder.kill();
    const created = await service.api.post('/v1/templates', { slug, from: { artifactId }, ...recipe });
    assert.equal(created.status, 201, JSON.stringify(created.body));
    for (let { build } = created.body; ; ) {
      if (build.finishedAt !== undefined) return build;
      const path = `/v1/templates/${slug}/builds/${build.id}?waitMs=60000`;
      ({ build } = (await service.api.get(path)).body);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}
