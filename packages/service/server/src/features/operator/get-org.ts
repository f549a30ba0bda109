import { AppError } from '../../platform/base/app-error.ts';
import type { Org, OrgRepository } from '../../platform/tenancy/org-repository.ts';

/** Returns the organization with this id or name. @throws AppError `not_found` */
export async function getOrg(orgs: OrgRepository, idOrName: string): Promise<Org> {
  const org = await orgs.find(idOrName);
  if (org) return org;
  const message = `There is no organization "${idOrName.slice(0, 80)}"; \`cloche admin org list\` lists the existing ones.`;
  throw new AppError('not_found', message);
}
