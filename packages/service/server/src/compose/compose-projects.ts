import { ProjectChanges, type ProjectChangesDeps } from '../features/projects/project-changes.ts';
import { projectRoutes } from '../features/projects/project-routes.ts';
import { ProjectService } from '../features/projects/project-service.ts';
import { ProjectAccess } from '../platform/access/project-access.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import type { Route } from '../platform/http/route.ts';
import type { ProjectRepository } from '../platform/tenancy/project-repository.ts';

export interface ProjectsDeps extends ProjectChangesDeps {
  readonly projects: ProjectRepository;
  readonly ids: IdSource;
}

/** Composes the projects. Other features use `access`. */
export function composeProjects({ projects, ids, ...deps }: ProjectsDeps): {
  access: ProjectAccess;
  routes: Route[];
} {
  const access = new ProjectAccess(projects);
  const service = new ProjectService({ access, projects, changes: new ProjectChanges(deps), ids });
  return { access, routes: projectRoutes(service) };
}
