import type { LaunchSource } from '@cloche/protocol';

/** A version, as the source of an instance. Records name no other source, so that an earlier hostd can read them. */
export type TemplateSource = Extract<LaunchSource, { kind: 'template' }>;

/** Returns the id of the version whose files are below the disk of an instance from that source. */
export function versionOfSource({ templateVersionId }: LaunchSource): string {
  return templateVersionId;
}
