import { operations } from '@cloche/contract';
import { listRoute } from '../../platform/http/list-route.ts';
import { type Route, route } from '../../platform/http/route.ts';
import { type ProjectRecord, toProject } from '../../platform/tenancy/project.ts';
import type { ProjectService } from './project-service.ts';

export function projectRoutes(service: ProjectService): Route[] {
  const answer = (record: ProjectRecord) => ({ project: toProject(record) });
  return [
    route(operations.createProject, async (request) => answer(await service.create(request))),
    listRoute(operations.listProjects, ({ credential, query }) => service.list(credential, query)),
    route(operations.getProject, async ({ credential, params }) =>
      answer(await service.get(credential, params.projectId)),
    ),
    route(operations.updateProject, async ({ credential, params, body, audit }) =>
      answer(await service.update(credential, params.projectId, body, audit)),
    ),
    route(operations.deleteProject, async ({ credential, params, audit }) =>
      answer(await service.delete(credential, params.projectId, audit)),
    ),
  ];
}
