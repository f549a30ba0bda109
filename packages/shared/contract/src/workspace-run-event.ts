/** Events of one workspace run: its statuses, its output and its artifacts, in one sequence. */
import { type Static, Type } from 'typebox';
import { ERROR_CODES, type ErrorCode } from './errors.ts';
import { ArtifactIdSchema } from './ids.ts';
import { oneOf } from './list.ts';
import { logPage } from './paged-log.ts';
import { timestamp } from './timestamps.ts';
import { WORKSPACE_RUN_STATUSES, WorkspaceRun, WorkspaceRunError } from './workspace-run.ts';

const fields = {
  seq: Type.Integer({ minimum: 1, description: 'Sequence number of the event within the run.' }),
  at: timestamp('When the service wrote it.'),
};

const output = <const Name extends 'stdout' | 'stderr' | 'system'>(type: Name, description: string) =>
  Type.Object(
    {
      ...fields,
      type: Type.Literal(type),
      data: Type.String({ description: 'The text. Bytes that are not UTF-8 are replaced; no character is split.' }),
    },
    { description },
  );

const events = [
  Type.Object(
    {
      ...fields,
      type: Type.Literal('state'),
      data: Type.Object({
        status: oneOf(WORKSPACE_RUN_STATUSES),
        exitCode: Type.Optional(Type.Integer()),
        signal: Type.Optional(Type.String()),
        error: Type.Optional(WorkspaceRunError),
      }),
    },
    { description: 'The run has another status.' },
  ),
  output('stdout', 'Standard output of the command.'),
  output('stderr', 'Standard error of the command.'),
  Type.Object(
    {
      ...fields,
      type: Type.Literal('artifact'),
      data: Type.Object({
        path: Type.String({ description: 'Path of the file, relative to `/workspace`; a pattern if none was read.' }),
        artifactId: Type.Optional(ArtifactIdSchema),
        error: Type.Optional(
          Type.Object({
            code: Type.Unsafe<ErrorCode>({ type: 'string', enum: ERROR_CODES }),
            message: Type.String(),
          }),
        ),
      }),
    },
    { description: 'A file became the artifact `artifactId`, or could not be exported: `error` says why.' },
  ),
  output('system', 'A note of the service: for example how much output was dropped before this event.'),
] as const;

/** An event of a run, told apart by `type`. */
export const WorkspaceRunEvent = Type.Union([...events], { $id: 'WorkspaceRunEvent' });
export type WorkspaceRunEvent = Static<typeof WorkspaceRunEvent>;

export const WorkspaceRunEventPage = logPage('WorkspaceRunEventPage', WorkspaceRunEvent, 'events');
export type WorkspaceRunEventPage = Static<typeof WorkspaceRunEventPage>;

/** Events of the stream of a run. `exit` is the last, unless the service fails and the stream ends with `error`. */
export const WorkspaceRunStreamEvent = Type.Union(
  [
    ...events,
    Type.Object(
      { type: Type.Literal('exit'), data: WorkspaceRun },
      { description: 'The run has finished. This is the last event.' },
    ),
  ],
  { $id: 'WorkspaceRunStreamEvent' },
);
export type WorkspaceRunStreamEvent = Static<typeof WorkspaceRunStreamEvent>;
