import type {
  Artifact,
  ArtifactDownloadUrl,
  ArtifactId,
  ExportArtifactBody,
  FileUser,
  SandboxId,
} from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { labelQuery, type PagedList, type PageOptions, pagedList } from './paged-list.ts';
import type { CallOptions } from './request.ts';

export interface ExportArtifactOptions extends CallOptions {
  /** File name of a download. Default: the last part of the path. */
  name?: string | undefined;
  /** Default: derived from the name's extension. */
  contentType?: string | undefined;
  metadata?: Record<string, string> | undefined;
  /** User whose permissions are used to read the file. Default: `user`. */
  user?: FileUser | undefined;
}

export interface ListArtifactsOptions extends PageOptions {
  projectId?: string | undefined;
  sandboxId?: string | undefined;
  name?: string | undefined;
  /** Labels that the artifact must have, all of them. */
  metadata?: Record<string, string> | undefined;
}

/** The artifacts of all sandboxes that the key can see. Artifacts outlive their sandboxes. */
export class Artifacts {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /** Lists artifacts, newest first. */
  list(options: ListArtifactsOptions = {}): PagedList<Artifact> {
    const { metadata, projectId, sandboxId, name, ...call } = options;
    const query = { projectId, sandboxId, name, ...labelQuery(metadata) };
    return pagedList(this.#client, 'listArtifacts', { ...call, query });
  }

  /** @throws {ClocheError} `not_found`, also for a deleted artifact. */
  async get(artifactId: string, options: CallOptions = {}): Promise<Artifact> {
    return (await this.#client.call('getArtifact', { ...options, params: paramsOf(artifactId) })).artifact;
  }

  /**
   * Starts a download; the body is not read yet. A `range` such as `bytes=0-99` returns a part.
   *
   * ```ts
   * const bytes = await (await cloche.artifacts.download(artifact.id)).bytes();
   * ```
   */
  download(artifactId: string, { range, ...options }: CallOptions & { range?: string } = {}): Promise<Response> {
    const headers = range === undefined ? {} : { headers: { range } };
    return this.#client.download('downloadArtifact', { ...options, ...headers, params: paramsOf(artifactId) });
  }

  /**
   * Returns a URL that downloads the artifact without a key.
   * @param options.expiresInMs default one hour, at most seven days.
   */
  async downloadUrl(
    artifactId: string,
    { expiresInMs, ...options }: CallOptions & { expiresInMs?: number | undefined } = {},
  ): Promise<ArtifactDownloadUrl> {
    const body = expiresInMs === undefined ? {} : { expiresInMs };
    const request = { ...options, params: paramsOf(artifactId), body };
    return (await this.#client.call('createArtifactDownloadUrl', request)).download;
  }

  /** Idempotent. */
  async delete(artifactId: string, options: CallOptions = {}): Promise<Artifact> {
    return (await this.#client.call('deleteArtifact', { ...options, params: paramsOf(artifactId) })).artifact;
  }
}

/** The artifacts of one sandbox. */
export class SandboxArtifacts {
  readonly #client: ApiClient;
  readonly #sandboxId: SandboxId;

  constructor(client: ApiClient, sandboxId: SandboxId) {
    this.#client = client;
    this.#sandboxId = sandboxId;
  }

  /**
   * Stores a file, or a directory as a tar.gz, as an artifact, which outlives the sandbox.
   *
   * ```ts
   * const artifact = await sandbox.artifacts.export('out/report.csv');
   * ```
   */
  async export(path: string, options: ExportArtifactOptions = {}): Promise<Artifact> {
    const { name, contentType, metadata, user, ...call } = options;
    const body: ExportArtifactBody = {
      path,
      ...(name === undefined ? {} : { name }),
      ...(contentType === undefined ? {} : { contentType }),
      ...(metadata === undefined ? {} : { metadata }),
      ...(user === undefined ? {} : { user }),
    };
    const params = { sandboxId: this.#sandboxId };
    // A large file takes long, so the default limit is longer than for other calls.
    const timeoutMs = call.timeoutMs ?? EXPORT_MS;
    return (await this.#client.call('exportArtifact', { ...call, timeoutMs, params, body })).artifact;
  }

  /** Lists the artifacts of the sandbox, newest first. */
  list(options: Omit<ListArtifactsOptions, 'sandboxId'> = {}): PagedList<Artifact> {
    return new Artifacts(this.#client).list({ ...options, sandboxId: this.#sandboxId });
  }
}

const EXPORT_MS = 600_000;

/** Casts the id. Ids are opaque, so only the service can check them. */
function paramsOf(artifactId: string): { artifactId: ArtifactId } {
  return { artifactId: artifactId as ArtifactId };
}
