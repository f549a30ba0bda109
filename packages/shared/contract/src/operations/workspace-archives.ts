import { Type } from 'typebox';
import { LIMITS } from '../limits.ts';
import { CONTENT_DIGEST, type Operation } from '../operation.ts';
import { ArchiveTransfer, ArchiveTransferBody, WORKSPACE_ARCHIVE_TYPES } from '../workspace-archive.ts';
import { WorkspaceRunParams, WorkspaceRunResponse } from './workspace-runs.ts';

const MEBIBYTE = 1024 ** 2;
const archive = '/v1/workspace-runs/{workspaceRunId}/archive';
const common = {
  tag: 'Workspace runs',
  scope: 'workspace_run:create',
  idempotency: 'required',
  params: WorkspaceRunParams,
} as const;

const REFUSED =
  'An archive is refused as a whole, with the name of the entry, if a path or link leads out of the workspace, if it contains ' +
  `a device, a pipe or a set-user-id or set-group-id bit, if it has more than ${LIMITS.workspaceArchiveEntries} entries, or ` +
  "if its files are larger than the run's disk. A refused archive leaves an earlier one in place; an accepted one replaces it. " +
  'After the start of the run the error is `conflict`, and so it is if another archive was uploaded to the run since the ' +
  'request came: of two uploads at a time the run keeps the one that is stored first.';

export const uploadWorkspaceArchive = {
  ...common,
  id: 'uploadWorkspaceArchive',
  method: 'PUT',
  path: archive,
  summary: 'Upload the archive of a workspace run',
  description:
    `The body is the archive, of at most ${LIMITS.workspaceArchiveBytes / MEBIBYTE} MiB; \`Content-Type\` states its format. ` +
    `For a larger one use \`createArchiveTransfer\`. ${REFUSED}`,
  headers: {
    'content-digest': CONTENT_DIGEST,
  },
  upload: {
    contentTypes: Object.values(WORKSPACE_ARCHIVE_TYPES),
    description: 'A tar, plain or compressed, or a zip.',
  },
  response: { status: 200, schema: WorkspaceRunResponse, description: 'The run, which has the archive.' },
  errors: ['conflict'],
} as const satisfies Operation;

export const createArchiveTransfer = {
  ...common,
  id: 'createArchiveTransfer',
  method: 'POST',
  path: '/v1/workspace-runs/{workspaceRunId}/archive-transfer',
  summary: 'Create a URL to upload a large archive',
  secretAnswer: true,
  description:
    `Send the archive, of at most ${LIMITS.workspaceArchiveTransferBytes / 1024 ** 3} GiB, to the URL with the headers; then ` +
    'call `finalizeArchive`. The URL takes only an archive of this size and digest. A further transfer ends an earlier one.',
  body: ArchiveTransferBody,
  response: {
    status: 201,
    schema: Type.Object({ transfer: ArchiveTransfer }),
    description: 'The request to upload the archive with.',
  },
  errors: ['conflict'],
} as const satisfies Operation;

export const finalizeArchive = {
  ...common,
  id: 'finalizeArchive',
  method: 'POST',
  path: `${archive}/finalize`,
  summary: 'Take over an archive that was uploaded to a URL',
  description: `If the upload is missing, or has another size or digest, the error is \`conflict\`. ${REFUSED}`,
  response: { status: 200, schema: WorkspaceRunResponse, description: 'The run, which has the archive.' },
  errors: ['conflict'],
} as const satisfies Operation;
