import type { ExportArtifactBody, SandboxId, WorkspaceRunId } from '@cloche/contract';
import { contentTypeOf } from '@cloche/node-support';
import { toAgentError } from '@cloche/runtime/agent-errors';
import { type AgentFiles, FileError } from '@cloche/runtime/agent-files';
import type { Call } from '../../platform/call/call.ts';
import type { Transaction } from '../../platform/db/transactions.ts';
import type { AccessFiles } from '../files/access-files.ts';
import { fileError } from '../sandbox-records/agent-failures.ts';
import type { SandboxAccess } from '../sandbox-records/sandbox-access.ts';
import { type ArtifactRecord, nameOf } from './artifact.ts';
import type { ArtifactRepository } from './artifact-repository.ts';
import type { KeepArtifact } from './keep-artifact.ts';
import { SourceError } from './store/staging.ts';

export interface ArtifactExport {
  readonly sandboxId: SandboxId;
  readonly body: ExportArtifactBody;
  /** The workspace run that exports it. */
  readonly workspaceRunId?: WorkspaceRunId | undefined;
  /** Called in the transaction that inserts the artifact. If it rejects, there is no artifact. */
  readonly guard?: (tx: Transaction) => Promise<void>;
}

/** Exports files and directories of sandboxes as artifacts. */
export class ExportArtifact {
  readonly #access: SandboxAccess;
  readonly #files: AccessFiles;
  readonly #artifacts: ArtifactRepository;
  readonly #keepArtifact: KeepArtifact;

  constructor(access: SandboxAccess, files: AccessFiles, artifacts: ArtifactRepository, keepArtifact: KeepArtifact) {
    this.#access = access;
    this.#files = files;
    this.#artifacts = artifacts;
    this.#keepArtifact = keepArtifact;
  }

  /** Streams a file, or a directory as an archive, from the sandbox into the store. @throws AppError */
  async export(call: Call, { sandboxId, body, workspaceRunId, guard }: ArtifactExport): Promise<ArtifactRecord> {
    const { credential, signal, idempotency } = call;
    const idempotencyRecordId = idempotency?.recordId;
    const sandbox = await this.#access.getLive(credential, sandboxId);
    const made = idempotencyRecordId && (await this.#artifacts.findByIdempotencyRecord(idempotencyRecordId));
    if (made) return made;
    return this.#files.with(call, sandboxId, async (files) => {
      const { name, content } = await contentAt(files.as(body.user), body.path, signal);
      const called = body.name ?? name;
      const artifact = {
        orgId: sandbox.orgId,
        projectId: sandbox.projectId,
        sandboxId: sandbox.id,
        workspaceRunId,
        name: called,
        path: body.path,
        contentType: body.contentType ?? contentTypeOf(called),
        metadata: body.metadata ?? {},
        idempotencyRecordId,
      };
      return this.#keepArtifact.keep(call, artifact, content, guard && { guard }).catch((error) => {
        throw error instanceof SourceError ? toAgentError(error.cause, signal, 'files') : error;
      });
    });
  }
}

/** Returns the name and the content at a path. The content is opened later, when there is room for it. */
async function contentAt(files: AgentFiles, path: string, signal: AbortSignal) {
  const { type, sizeBytes } = await explained(files.stat(path, signal));
  if (type === 'directory') {
    const open = () => explained(files.archive(path, 'tar.gz', signal));
    return { name: nameOf(path, '.tar.gz'), content: { open } };
  }
  // `read` follows a symbolic link to its target.
  const open = async () => (await explained(files.read(path, {}, signal))).body;
  const size = type === 'symlink' ? await sizeOf(files, path, signal) : sizeBytes;
  return { name: nameOf(path), content: { sizeBytes: size, open } };
}

async function sizeOf(files: AgentFiles, path: string, signal: AbortSignal): Promise<number | undefined> {
  const { sizeBytes, body } = await explained(files.read(path, { headOnly: true }, signal));
  body.resume();
  return sizeBytes;
}

function explained<T>(result: Promise<T>): Promise<T> {
  return result.catch((error) => {
    throw error instanceof FileError ? fileError(error, 'body.path') : error;
  });
}
