/** What always holds for the template builds of a simulation. */
import type { WorkloadWorld } from './workload.ts';

export function watchBuilds({ database, runtime, violate }: WorkloadWorld) {
  const ended = new Map<unknown, unknown>();

  return {
    committed() {
      const live = database.read(
        `select json_extract(metadata, '$.templateBuild') as build, count(*) as live from sandboxes
          where status in ('creating', 'starting', 'ready') and metadata like '%templateBuild%' group by build having live > 1`,
      );
      for (const { build } of live) violate(`${build} has several sandboxes`);
      for (const row of database.read(
        'select id, status, template_version_id from template_builds where finished_at is not null',
      )) {
        const first = ended.get(row.id) ?? row.status;
        ended.set(row.id, first);
        if (first !== row.status) violate(`${row.id} is ${first}, and then ${row.status}`);
        if (row.status === 'succeeded' && !runtime.versions.has(String(row.template_version_id))) {
          violate(`${row.id} has succeeded, and the host has no version ${row.template_version_id}`);
        }
      }
    },
    unrest(): string[] {
      const open = database.read(
        'select id, status from template_builds where finished_at is null or claimed_by is not null',
      );
      const left = database.read(
        "select id from sandboxes where status in ('creating', 'starting', 'ready', 'expiring') and metadata like '%templateBuild%'",
      );
      return [
        ...open.map(({ id, status }) => `${id} is ${status}, or claimed`),
        ...left.map(({ id }) => `the sandbox ${id} of a build is left`),
      ];
    },
  };
}
