import type { IdSource } from '../base/id-source.ts';
import type { Route } from '../http/route.ts';
import { ProjectAccess } from '../projects/access/project-access.ts';
import { ProjectChanges, type ProjectChangesDeps } from '../projects/api/project-changes.ts';
import { projectRoutes } from '../projects/api/project-routes.ts';
import { ProjectService } from '../projects/api/project-service.ts';
import type { ProjectRepository } from '../projects/project-repository.ts';

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
