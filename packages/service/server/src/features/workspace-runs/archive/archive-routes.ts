import { operations } from '@cloche/contract';
import { type Route, receivedUploadRoute, route } from '../../../platform/http/route.ts';
import { toWorkspaceRun, type WorkspaceRunRecord } from '../record/workspace-run.ts';
import type { WorkspaceRunAccess } from '../record/workspace-run-access.ts';
import type { ReceiveArchive } from './receive-archive.ts';
import type { StoreArchive } from './store-archive.ts';
import type { TransferArchive } from './transfer-archive.ts';

export interface ArchiveRoutesDeps {
  readonly runAccess: WorkspaceRunAccess;
  readonly receiveArchive: ReceiveArchive;
  readonly storeArchive: StoreArchive;
  readonly transferArchive: TransferArchive;
}

export function archiveRoutes({
  runAccess,
  receiveArchive,
  storeArchive,
  transferArchive,
}: ArchiveRoutesDeps): Route[] {
  const answer = (record: WorkspaceRunRecord) => ({ workspaceRun: toWorkspaceRun(record) });
  return [
    receivedUploadRoute(
      operations.uploadWorkspaceArchive,
      (request) => receiveArchive.receive(request),
      async ({ signal, audit }, { run, archive, replaced }) =>
        answer(await storeArchive.store(run, archive, { signal, audit, replaced })),
    ),
    route(operations.createArchiveTransfer, async ({ credential, params, body, audit }) => {
      const run = await runAccess.get(credential, params.workspaceRunId);
      return { transfer: await transferArchive.create(run, body, audit) };
    }),
    route(operations.finalizeArchive, async (request) => {
      const run = await runAccess.get(request.credential, request.params.workspaceRunId);
      return answer(await transferArchive.finalize(run, request));
    }),
  ];
}
