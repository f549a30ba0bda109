import type { WorkspaceRun, WorkspaceRunEvent } from '@cloche/sdk';
import type { Session } from '../session.ts';
import { counted } from '../terminal/counted.ts';
import { formatDuration } from '../terminal/duration.ts';
import { jsonLine } from '../terminal/printable.ts';

/** Prints the events of a job up to its end, and leaves the last state in `run`. */
export async function followJob(session: Session, run: WorkspaceRun, signal: AbortSignal): Promise<void> {
  for await (const event of run.events({ signal })) await printEvent(session, event);
}

/** Prints output of a job to the stream that the command wrote it to. With `--json`, prints each event as a line. */
export async function printEvent(session: Session, event: WorkspaceRunEvent): Promise<void> {
  const { out, err } = session.terminal;
  if (session.json) await out.line(jsonLine(event));
  else if (event.type === 'stdout') await out.program(event.data);
  else if (event.type === 'stderr') await err.program(event.data);
  else if (event.type === 'system') await session.note(event.data);
  else if (event.type === 'artifact' && event.data.error) {
    await session.note(`${event.data.path} was not exported: ${event.data.error.message}`);
  }
}

/** Prints how a job ended, and sets the exit code of this process to that of the job's command. */
export async function reportEnd(session: Session, { id, info }: WorkspaceRun): Promise<void> {
  const { status, exitCode, error, timeoutMs, artifactIds, startedAt, finishedAt } = info;
  const artifacts = artifactIds.length === 0 ? '' : counted(artifactIds.length, 'artifact');
  const isShown = status === 'succeeded' && startedAt && finishedAt && session.terminal.err.isTerminal;
  if (isShown) {
    const took = formatDuration(Date.parse(finishedAt) - Date.parse(startedAt));
    await session.note(`✔ succeeded in ${took}${artifacts && `, ${artifacts}`}`);
  }
  process.exitCode = exitCode ?? (status === 'succeeded' ? 0 : 1);
  if (status === 'canceled') await session.note(`${id} was canceled.`);
  if (status === 'timed_out') await session.note(`${id} reached its timeout of ${formatDuration(timeoutMs)}.`);
  if (error) await session.note(`${id} failed: ${error.message}`);
  if (artifacts !== '')
    await session.note(`${isShown ? '' : `${artifacts}; `}to download: cloche job artifacts ${id} --download DIR`);
}
