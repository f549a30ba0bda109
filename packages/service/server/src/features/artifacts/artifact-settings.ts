/** Operator settings for artifacts. */
export interface ArtifactSettings {
  /** URL of the store: `file:/absolute/folder` or `s3://bucket/prefix?endpoint=…&region=…`. */
  readonly url: string;
  /** Directory for contents that are being received. For a local store, it must be on the store's file system. */
  readonly stagingDir: string;
  /** Maximum size of one artifact, in bytes. */
  readonly maxBytes: number;
  /** How long artifacts are kept; undefined means until they are deleted. */
  readonly retentionMs: number | undefined;
  /** Base URL of download links; undefined means the URL where the service is served. */
  readonly publicUrl: string | undefined;
}
