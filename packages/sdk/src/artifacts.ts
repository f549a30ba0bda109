import type {
  Artifact,
  ArtifactDownloadUrl,
  ArtifactId,
  ExportArtifactBody,
  FileUser,
  Operations,
  QueryOf,
  SandboxId,
} from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import type { CallOptions } from './request.ts';

export interface ExportArtifactOptions extends CallOptions {
  /** What a download is called; default: the last part of the path. */
  name?: string | undefined;
  /** Default: by the name. */
  contentType?: string | undefined;
  metadata?: Record<string, string> | undefined;
  /** The user whose rights the file is read with. Default: `user`. */
  user?: FileUser | undefined;
}

export interface ListArtifactsOptions extends CallOptions {
  projectId?: string | undefined;
  sandboxId?: string | undefined;
  name?: string | undefined;
  /** Exact labels, all of which must hold. */
  metadata?: Record<string, string> | undefined;
}

/** What the sandboxes of the key have left; it outlives them. */
export class Artifacts {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /** Newest first. */
  async list(options: ListArtifactsOptions = {}): Promise<Artifact[]> {
    const { metadata = {}, projectId, sandboxId, name, ...call } = options;
    const query: QueryOf<Operations['listArtifacts']> = {
      ...(projectId === undefined ? {} : { projectId }),
      ...(sandboxId === undefined ? {} : { sandboxId }),
      ...(name === undefined ? {} : { name }),
      ...Object.fromEntries(Object.entries(metadata).map(([key, value]) => [`metadata.${key}`, value])),
    };
    return (await this.#client.call('listArtifacts', { ...call, query })).data;
  }

  /** @throws {ClocheError} `not_found` also when it was deleted. */
  async get(artifactId: string, options: CallOptions = {}): Promise<Artifact> {
    return (await this.#client.call('getArtifact', { ...options, params: paramsOf(artifactId) })).artifact;
  }

  /**
   * Its bytes, not read yet; a `range` such as `bytes=0-99` gives a part.
   *
   * ```ts
   * const bytes = await (await cloche.artifacts.download(artifact.id)).bytes();
   * ```
   */
  download(artifactId: string, { range, ...options }: CallOptions & { range?: string } = {}): Promise<Response> {
    const headers = range === undefined ? {} : { headers: { range } };
    return this.#client.download('downloadArtifact', { ...options, ...headers, params: paramsOf(artifactId) });
  }

  /** A URL that downloads it without a key. @param options.expiresInMs default an hour, at most seven days. */
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

/** Keeps what is in one sandbox. */
export class SandboxArtifacts {
  readonly #client: ApiClient;
  readonly #sandboxId: SandboxId;

  constructor(client: ApiClient, sandboxId: SandboxId) {
    this.#client = client;
    this.#sandboxId = sandboxId;
  }

  /**
   * Keeps a file, or a directory as a tar.gz, as an artifact, which outlives the sandbox.
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
    // Large files take as long as they take, unless the caller has a limit of its own.
    const timeoutMs = call.timeoutMs ?? EXPORT_MS;
    return (await this.#client.call('exportArtifact', { ...call, timeoutMs, params, body })).artifact;
  }

  /** Those that were made of it, newest first. */
  list(options: Omit<ListArtifactsOptions, 'sandboxId'> = {}): Promise<Artifact[]> {
    return new Artifacts(this.#client).list({ ...options, sandboxId: this.#sandboxId });
  }
}

const EXPORT_MS = 600_000;

/** Ids are opaque: the service tells which exist, whatever they look like. */
function paramsOf(artifactId: string): { artifactId: ArtifactId } {
  return { artifactId: artifactId as ArtifactId };
}
