import { InvalidArchiveError } from '@cloche/archive';
import { SetupError } from '../progress.ts';

/** An archive of templates that is refused. The message is a clause about the archive. */
export class TemplateArchiveError extends Error {
  override readonly name = 'TemplateArchiveError';
}

const RETRY = 'Copy the archive again and compare its SHA-256, or export it again; nothing was imported.';

/** Returns the failure of an import for the operator. */
export function explainRefusal(file: string, error: unknown): unknown {
  const { code = '', syscall, message } = error as NodeJS.ErrnoException;
  if (error instanceof TemplateArchiveError || error instanceof InvalidArchiveError)
    return new SetupError(`${file} cannot be imported: ${message}.`, RETRY, { cause: error });
  if (/^(Z_|ZSTD_|ERR_ZSTD)/.test(code))
    return new SetupError(`${file} cannot be imported: its compressed data is corrupt.`, RETRY, { cause: error });
  if (code === 'ENOENT' && syscall === 'open')
    return new SetupError(`${file} does not exist.`, 'Give the path of an archive.');
  return error;
}
