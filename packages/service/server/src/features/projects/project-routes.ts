import { operations } from '@cloche/contract';
import { listRoute } from '../../platform/http/list-route.ts';
import { type Route, route } from '../../platform/http/route.ts';
import { type ProjectRecord, toProject } from '../../platform/tenancy/project.ts';
import type { ProjectService } from './project-service.ts';

export function projectRoutes(service: ProjectService): Route[] {
  const answer = (record: ProjectRecord) => ({ project: toProject(record) });
  return [
    route(operations.createProject, async ({ call, body }) => answer(await service.create(call, body))),
    listRoute(operations.listProjects, ({ call, query }) => service.list(call, query)),
    route(operations.getProject, async ({ call, params }) => answer(await service.get(call, params.projectId))),
    route(operations.updateProject, async ({ call, params, body }) =>
      answer(await service.update(call, params.projectId, body)),
    ),
    route(operations.deleteProject, async ({ call, params }) => answer(await service.delete(call, params.projectId))),
  ];
}
