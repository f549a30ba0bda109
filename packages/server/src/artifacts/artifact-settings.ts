/** What the operator decides about artifacts. */
export interface ArtifactSettings {
  /** `file:/absolute/folder` or `s3://bucket/prefix?endpoint=…&region=…`. */
  readonly url: string;
  /** Where contents are gathered before they are put into the store; on the file system of a local one. */
  readonly stagingDir: string;
  /** Of one artifact. */
  readonly maxBytes: number;
  /** Bytes of all artifacts of one organization; undefined: limited only by the disk. */
  readonly maxOrganizationBytes: number | undefined;
  /** How long artifacts are kept; undefined: until they are deleted. */
  readonly retentionMs: number | undefined;
  /** What links to downloads begin with; undefined: where the service is served. */
  readonly publicUrl: string | undefined;
}
