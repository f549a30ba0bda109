import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import type { AgentFiles } from '@cloche/runtime/agent-files';
import { callOf } from '../../../testing/call.ts';
import type { AccessFiles } from '../files/access-files.ts';
import type { SandboxAccess } from '../sandbox-records/sandbox-access.ts';
import type { ArtifactRepository } from './artifact-repository.ts';
import { ExportArtifact } from './export-artifact.ts';
import type { KeepArtifact } from './keep-artifact.ts';
import { SourceError } from './store/staging.ts';

const { signal } = new AbortController();
const FILE = { type: 'file', sizeBytes: 5 };

/** Exports a file of a sandbox whose agent is `files`; `keep` receives the content. */
function exportFrom(files: Record<string, unknown>, keep: KeepArtifact['keep']) {
  const all = { as: () => all, ...files } as unknown as AgentFiles;
  const access = { getLive: async () => ({ id: 'sbx_1', orgId: 'org_1', projectId: 'prj_1' }) };
  const accessFiles = { with: (_: unknown, _id: unknown, act: (agent: AgentFiles) => unknown) => act(all) };
  // Sound: an export calls nothing else.
  const exports = new ExportArtifact(
    access as unknown as SandboxAccess,
    accessFiles as unknown as AccessFiles,
    {} as ArtifactRepository,
    { keep } as KeepArtifact,
  );
  const request = { sandboxId: 'sbx_1' as SandboxId, body: { path: 'a' } };
  return exports.export(callOf({ credential: {} as never, signal }), request);
}

describe('an export', () => {
  it('an export fails as the connection to its sandbox does, if that breaks while the content is read', async () => {
    const broken = async () => {
      throw new SourceError('broken', { cause: new Error('the agent broke off before the end of a file') });
    };
    await assert.rejects(exportFrom({ stat: async () => FILE }, broken), { name: 'AgentError', kind: 'gone' });
  });

  it('an export announces the size of the file, also of the one that a link leads to, and opens it only then', async () => {
    const calls: string[] = [];
    const read = async (_: string, { headOnly = false }) => {
      calls.push(headOnly ? 'head' : 'read');
      return { sizeBytes: 7, body: Readable.from(['content']) };
    };
    const sizeOf = async (type: string) => {
      const kept = Promise.withResolvers<number | undefined>();
      const keep: KeepArtifact['keep'] = async (_call, _artifact, { sizeBytes }) => {
        kept.resolve(sizeBytes);
        return {} as never;
      };
      await exportFrom({ stat: async () => ({ ...FILE, type }), read }, keep);
      return kept.promise;
    };
    assert.deepEqual([await sizeOf('file'), calls.splice(0)], [5, []]);
    assert.deepEqual([await sizeOf('symlink'), calls], [7, ['head']]);
  });
});
