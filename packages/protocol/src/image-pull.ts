/** What the server tells the program that downloads an image, which runs in the sandbox of a build. */

/** Environment variable with the password of the account, or rather its placeholder. */
export const REGISTRY_PASSWORD = 'CLOCHE_REGISTRY_PASSWORD';

export interface ImagePull {
  /** Host, with a port where one is named. */
  readonly registry: string;
  readonly repository: string;
  /** A tag, or a digest. */
  readonly reference: string;
  readonly username?: string;
  /** Certificates of further authorities, as PEM. */
  readonly caCertificates?: string;
}
