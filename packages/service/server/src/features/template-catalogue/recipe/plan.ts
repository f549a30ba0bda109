/** Plans: recipes after their check, as builds store them and run them. */
import type { CommandUser, ImageName, NetworkPolicy, Resources, SecretId } from '@cloche/contract';

export interface PlannedFile {
  readonly path: string;
  /** The bytes in base64, or the artifact that has them. */
  readonly content: { readonly base64: string } | { readonly artifactId: string; readonly sha256: string };
  readonly mode: string;
  readonly as: CommandUser;
}

/** An image of a registry. */
export interface PlannedPull extends ImageName {
  readonly credentials?: { readonly username: string; readonly secretId: SecretId };
  readonly caCertificates?: string;
}

/** A step with everything that its result depends on, besides the steps before it. */
export type PlannedStep =
  | { readonly kind: 'image'; readonly artifactId: string; readonly sha256: string }
  | { readonly kind: 'image'; readonly pull: PlannedPull }
  | { readonly kind: 'apt' | 'pip' | 'npm'; readonly packages: readonly string[] }
  | { readonly kind: 'files'; readonly files: readonly PlannedFile[] }
  | {
      readonly kind: 'run';
      readonly run: string;
      readonly as: CommandUser;
      readonly cwd: string;
      readonly env: Readonly<Record<string, string>>;
    };

/** Everything of a version besides its files. */
export interface VersionSettings {
  readonly env: Readonly<Record<string, string>>;
  readonly languages: readonly string[];
  readonly imports: readonly string[];
  /** Defaults of sandboxes of the version. */
  readonly resources: Resources;
}

export interface Plan {
  readonly steps: readonly PlannedStep[];
  readonly settings: VersionSettings;
  /** Policy of the build. */
  readonly networkPolicy: NetworkPolicy;
}
