/** What always holds for the template builds of a simulation. */
import type { WorkloadWorld } from './workload.ts';

export function watchBuilds({ database, runtime, violate }: WorkloadWorld) {
  const ended = new Map<unknown, unknown>();
  const liveVersions = () =>
    database.read('select id, template_id from custom_template_versions where removed_at is null');
  const usable = (templateId: unknown, id: unknown) =>
    liveVersions().some((version) => version.id === id && version.template_id === templateId);
  const isDeleted = (templateId: unknown) =>
    database.read('select id from custom_templates where id = ? and deleted_at is not null', String(templateId))
      .length > 0;

  return {
    committed() {
      const live = database.read(
        `select json_extract(metadata, '$.templateBuild') as build, count(*) as live from sandboxes
          where status in ('creating', 'starting', 'ready') and metadata like '%templateBuild%' group by build having live > 1`,
      );
      for (const { build } of live) violate(`${build} has several sandboxes`);
      for (const row of database.read(
        'select id, template_id, status, template_version_id from template_builds where finished_at is not null',
      )) {
        const first = ended.get(row.id) ?? row.status;
        ended.set(row.id, first);
        if (first !== row.status) violate(`${row.id} is ${first}, and then ${row.status}`);
        const isUsable = usable(row.template_id, row.template_version_id) || isDeleted(row.template_id);
        if (row.status === 'succeeded' && !isUsable) {
          violate(`${row.id} has succeeded, and its template has no version ${row.template_version_id}`);
        }
      }
      for (const { id, template_id: templateId } of liveVersions()) {
        if (!runtime.captured.has(String(id))) violate(`the host has lost the version ${id} of ${templateId}`);
      }
    },
    unrest(): string[] {
      const open = database.read(
        'select id, status from template_builds where finished_at is null or claimed_by is not null',
      );
      const left = database.read(
        "select id from sandboxes where status in ('creating', 'starting', 'ready', 'expiring') and metadata like '%templateBuild%'",
      );
      const live = new Set(liveVersions().map(({ id }) => id));
      const removed = database
        .read('select distinct id from custom_template_versions where removed_at is not null')
        .filter(({ id }) => !live.has(id) && runtime.captured.has(String(id)));
      return [
        ...removed.map(({ id }) => `the version ${id} is kept, and unused`),
        ...open.map(({ id, status }) => `${id} is ${status}, or claimed`),
        ...left.map(({ id }) => `the sandbox ${id} of a build is left`),
      ];
    },
  };
}
