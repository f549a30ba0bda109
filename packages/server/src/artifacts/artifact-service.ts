import type { ArtifactId, operations, ProjectId, QueryOf } from '@cloche/contract';
import { type Credential, mayUseProject } from '../api-keys/credential.ts';
import { AppError, notFound } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import type { ProjectRepository } from '../projects/project-repository.ts';
import type { ArtifactRecord } from './artifact.ts';
import type { ArtifactContents } from './artifact-contents.ts';
import type { ArtifactRepository } from './artifact-repository.ts';

const LABEL = 'metadata.';

/** Finds and deletes artifacts. Artifacts outlive their sandbox. */
export class ArtifactService {
  readonly #artifacts: ArtifactRepository;
  readonly #contents: ArtifactContents;
  readonly #projects: ProjectRepository;
  readonly #clock: Clock;

  constructor(artifacts: ArtifactRepository, contents: ArtifactContents, projects: ProjectRepository, clock: Clock) {
    this.#artifacts = artifacts;
    this.#contents = contents;
    this.#projects = projects;
    this.#clock = clock;
  }

  async list(credential: Credential, query: QueryOf<typeof operations.listArtifacts>): Promise<ArtifactRecord[]> {
    const projectIds = await this.#projectsOf(credential, query.projectId);
    const { sandboxId, name } = query;
    const filter = { orgId: credential.orgId, projectIds, sandboxId, name };
    const records = await this.#artifacts.list(filter, this.#clock.now());
    const labels = Object.entries(query).filter(([key]) => key.startsWith(LABEL));
    return records.filter(({ metadata }) =>
      labels.every(([key, value]) => {
        const label = key.slice(LABEL.length);
        return Object.hasOwn(metadata, label) && metadata[label] === value;
      }),
    );
  }

  /** @throws AppError `not_found`, also for a deleted or expired artifact. */
  async get(credential: Credential, id: ArtifactId): Promise<ArtifactRecord> {
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
  async delete(credential: Credential, id: ArtifactId): Promise<ArtifactRecord> {
    const record = visible(credential, id, await this.#artifacts.find(id));
    if (record.deletedAt !== undefined) return record;
    return (await this.#contents.release(record)) ?? (await this.#artifacts.find(id)) ?? record;
  }

  /** Deletes expired artifacts and returns how many there were. */
  async expire(): Promise<number> {
    const expired = await this.#artifacts.listExpired(this.#clock.now());
    for (const record of expired) await this.#contents.release(record);
    return expired.length;
  }

  async #projectsOf(credential: Credential, wanted: string | undefined): Promise<readonly ProjectId[] | undefined> {
    if (wanted === undefined) return credential.projectIds && [...credential.projectIds];
    const project = await this.#projects.find(credential.orgId, wanted);
    if (!project) throw notFound('project', wanted);
    if (!mayUseProject(credential, project.id)) throw foreignProject(`project "${wanted}"`);
    return [project.id];
  }
}

function isThere(record: ArtifactRecord, now: number): boolean {
  return record.deletedAt === undefined && (record.expiresAt === undefined || record.expiresAt > now);
}

function visible(credential: Credential, id: string, record: ArtifactRecord | undefined): ArtifactRecord {
  if (!record || record.orgId !== credential.orgId) throw notFound('artifact', id);
  if (!mayUseProject(credential, record.projectId)) throw foreignProject(`project of the artifact "${id}"`);
  return record;
}

function foreignProject(what: string): AppError {
  return new AppError('forbidden', `This API key may not use the ${what}; use a key that may.`);
}
