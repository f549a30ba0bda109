import type { Artifact, ArtifactId, operations, QueryOf } from '@cloche/contract';
import { type ProjectAccess, requireProject } from '../../platform/access/project-access.ts';
import { notFound } from '../../platform/base/app-error.ts';
import type { Clock } from '../../platform/base/clock.ts';
import { tryEach } from '../../platform/base/try-each.ts';
import type { Call } from '../../platform/call/call.ts';
import { type List, labelsOf, newestFirst } from '../../platform/db/list.ts';
import type { Credential } from '../../platform/keys/credential.ts';
import { type ArtifactRecord, toArtifact } from './artifact.ts';
import type { ArtifactContents } from './artifact-contents.ts';
import type { ArtifactRepository } from './artifact-repository.ts';

/** Finds and deletes artifacts. Artifacts outlive their sandbox. */
export class ArtifactService {
  readonly #artifacts: ArtifactRepository;
  readonly #contents: ArtifactContents;
  readonly #projects: ProjectAccess;
  readonly #clock: Clock;

  constructor(artifacts: ArtifactRepository, contents: ArtifactContents, projects: ProjectAccess, clock: Clock) {
    this.#artifacts = artifacts;
    this.#contents = contents;
    this.#projects = projects;
    this.#clock = clock;
  }

  /** Opens the list of the artifacts that the key may see, newest first. */
  async list(
    { credential }: Call,
    query: QueryOf<typeof operations.listArtifacts>,
  ): Promise<List<ArtifactRecord, Artifact>> {
    const projectIds = await this.#projects.listed(credential, query.projectId);
    const { sandboxId, workspaceRunId, name } = query;
    const labels = labelsOf(query);
    const filter = { orgId: credential.orgId, projectIds, sandboxId, workspaceRunId, name, labels };
    return newestFirst((part) => this.#artifacts.list(filter, this.#clock.now(), part), toArtifact);
  }

  /** @throws AppError `not_found`, also for a deleted or expired artifact. */
  async get({ credential }: Call, id: ArtifactId): Promise<ArtifactRecord> {
    const record = visible(credential, id, await this.#artifacts.find(id));
    if (!isThere(record, this.#clock.now())) throw notFound('artifact', id);
    return record;
  }

  /** Returns an artifact for the holder of a valid signed link. @throws AppError `not_found` */
  async getSigned(id: string): Promise<ArtifactRecord> {
    const record = await this.#artifacts.find(id);
    if (!record || !isThere(record, this.#clock.now())) throw notFound('artifact', id);
    return record;
  }

  /** Idempotent. */
  async delete(call: Call, id: ArtifactId): Promise<ArtifactRecord> {
    const record = visible(call.credential, id, await this.#artifacts.find(id));
    if (record.deletedAt !== undefined) return record;
    return (await this.#contents.releaseAtOnce(call, record)) ?? (await this.#artifacts.find(id)) ?? record;
  }

  /** Deletes expired artifacts and returns how many there were. */
  async expire(): Promise<number> {
    const expired = await this.#artifacts.listExpired(this.#clock.now());
    await tryEach(expired, (record) => this.#contents.release(record));
    return expired.length;
  }
}

function isThere(record: ArtifactRecord, now: number): boolean {
  return record.deletedAt === undefined && (record.expiresAt === undefined || record.expiresAt > now);
}

function visible(credential: Credential, id: string, record: ArtifactRecord | undefined): ArtifactRecord {
  if (!record || record.orgId !== credential.orgId) throw notFound('artifact', id);
  requireProject(credential, record.projectId, `project of the artifact "${id}"`);
  return record;
}
