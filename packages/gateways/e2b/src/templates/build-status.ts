import type { TemplateBuild, TemplateBuildLogEntry, TemplateBuildStatus } from '@cloche/contract';
import { GatewayError } from '@cloche/kit';
import type { Cloche } from '@cloche/sdk';
import { markOf, readBuildId } from './build-id.ts';

/** Most entries in one response. Clients request further entries until a response has none. */
const MOST_ENTRIES = 100;
const STATUSES: Readonly<Record<TemplateBuildStatus, string>> = {
  queued: 'waiting',
  running: 'building',
  succeeded: 'ready',
  failed: 'error',
  canceled: 'error',
};

/** Finds a build among those of its template. @throws GatewayError 404, ClocheError `not_found` for the template */
export async function findBuild({ templates }: Cloche, slug: string, buildId: string): Promise<TemplateBuild> {
  const mark = markOf(readBuildId(buildId).name);
  const found = (await templates.builds(slug)).find(({ steps }) => steps.at(-1)?.description === mark);
  if (found) return found;
  throw new GatewayError(404, `There is no build ${buildId} of the template ${slug}.`);
}

/** Returns the state of a build as the clients read it, with its log from an entry on. */
export async function statusOf(cloche: Cloche, build: TemplateBuild, buildId: string, logsOffset: number) {
  const page = { afterSeq: logsOffset, limit: MOST_ENTRIES };
  const { data } = await cloche.templates.buildLogs(build.templateId, build.id, page);
  return {
    templateID: build.templateSlug,
    buildID: buildId,
    status: STATUSES[build.status],
    logs: data.map(textOf),
    logEntries: data.map((entry) => ({
      timestamp: entry.at,
      level: entry.stream === 'stderr' ? 'warn' : 'info',
      message: textOf(entry),
      step: String(entry.step),
    })),
    ...(STATUSES[build.status] === 'error' && { reason: { message: reasonOf(build) } }),
  };
}

function reasonOf({ error, steps }: TemplateBuild): string {
  if (!error) return 'The build was canceled.';
  const step = error.step === undefined ? undefined : steps[error.step - 1]?.description;
  return `${error.code}: ${error.message}${step === undefined ? '' : ` (${step})`}`;
}

function textOf({ data }: TemplateBuildLogEntry): string {
  return data.replace(/\n$/, '');
}
