/** Request of the server to the program in a build's sandbox that downloads an image. */

/** Environment variable with the password of the account, or rather its placeholder. */
export const REGISTRY_PASSWORD = 'CLOCHE_REGISTRY_PASSWORD';

export interface ImagePull {
  /** Host, with a port where one is named. */
  readonly registry: string;
  readonly repository: string;
  /** A tag, or a digest. */
  readonly reference: string;
  readonly username?: string;
  /** Digests of the layers to download. Default: all that the download folder lacks. */
  readonly layers?: readonly string[];
  /** Certificates of further authorities, as PEM. */
  readonly caCertificates?: string;
}
