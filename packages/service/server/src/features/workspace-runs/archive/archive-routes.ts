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
      ({ call, params, upload }) => receiveArchive.receive(call, params.workspaceRunId, upload),
      async ({ call }, { run, archive, replaced }) => answer(await storeArchive.store(call, run, archive, replaced)),
    ),
    route(operations.createArchiveTransfer, async ({ call, params, body }) => {
      const run = await runAccess.get(call.credential, params.workspaceRunId);
      return { transfer: await transferArchive.create(call, run, body) };
    }),
    route(operations.finalizeArchive, async ({ call, params }) => {
      const run = await runAccess.get(call.credential, params.workspaceRunId);
      return answer(await transferArchive.finalize(call, run));
    }),
  ];
}
