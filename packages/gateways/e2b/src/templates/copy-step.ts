import { posix } from 'node:path';
import type { TemplateSetupStep } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';

export interface Copy {
  readonly args: readonly string[];
  /** Artifact with the tar of the files. Their paths are relative to the context of the client. */
  readonly artifactId: string;
  /** User and directory of the steps so far. */
  readonly user: string;
  readonly cwd: string;
}

/**
 * Copies a file, or the content of a directory. The target of a file is a directory if it exists as one or ends with a
 * slash.
 */
const PLACE = `set -e
unpacked=$ARCHIVE.d
mkdir "$unpacked"
tar -xf "$ARCHIVE" -C "$unpacked"
from=$unpacked/$FROM
chown -hR "$OWNER" "$unpacked"
if [ -n "$MODE" ]; then chmod -R "$MODE" "$from"; fi
if [ -d "$from" ] && [ ! -L "$from" ]; then
  mkdir -p "$TO"
  find "$from" -mindepth 1 -maxdepth 1 -exec cp -a -t "$TO/" {} +
else
  case $TO in */) mkdir -p "$TO";; *) mkdir -p "$(dirname "$TO")";; esac
  cp -a "$from" "$TO"
fi
rm -r "$unpacked" "$ARCHIVE"`;

/** Returns the steps of a `COPY` of E2B: one that writes the tar, and one that unpacks it. @throws GatewayError 400 */
export function copySteps({ args, artifactId, user, cwd }: Copy, number: number): TemplateSetupStep[] {
  const [source = '', target = '', owner = '', mode = ''] = args;
  if (source === '' || target === '') throw new GatewayError(400, 'COPY needs a source and a target.');
  const archive = `/tmp/.e2b-copy-${number}.tar`;
  const env = {
    ARCHIVE: archive,
    FROM: fixedPart(source),
    TO: posix.resolve(cwd, target) + (/[^/]\/$/.test(target) ? '/' : ''),
    OWNER: groupOf(owner || user),
    MODE: mode,
  };
  return [{ files: [{ path: archive, mode: '0600', artifactId }] }, { as: 'root', cwd: '/', run: PLACE, env }];
}

/**
 * Returns the directories of a pattern before its first part with a wildcard. The client has packed only what matches.
 */
function fixedPart(source: string): string {
  const parts = posix.normalize(source).split('/');
  const wild = parts.findIndex((part) => /[*?[{\\]/.test(part));
  const fixed = (wild === -1 ? parts : parts.slice(0, wild)).filter((part) => part !== '');
  if (source.startsWith('/') || fixed.includes('..')) {
    throw new GatewayError(400, `The source ${source} of COPY is outside of the folder of the template.`);
  }
  return fixed.join('/') || '.';
}

function groupOf(owner: string): string {
  return owner.includes(':') ? owner : `${owner}:${owner}`;
}
