import { AppError } from '../../../platform/base/app-error.ts';
import { allowsRun, type WorkspaceRunRecord } from '../record/workspace-run.ts';

/** @throws AppError `conflict` if the run takes no archive any more */
export function requireArchivable(run: WorkspaceRunRecord): void {
  if (!allowsRun('archive', run.status)) throw notArchivable(run);
}

export function notArchivable({ status }: WorkspaceRunRecord): AppError {
  const message = `The workspace run is \`${status}\`: it takes an archive only before its start. Create another run.`;
  return new AppError('conflict', message, { details: { status } });
}
