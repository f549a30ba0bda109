import type { LaunchSource } from '@cloche/protocol';

/** Returns the id of the version whose files are below the disk of an instance from that source. */
export function versionOfSource(source: LaunchSource): string {
  switch (source.kind) {
    case 'template':
      return source.templateVersionId;
  }
}
