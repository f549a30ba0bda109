import { runNpm } from './npm.ts';

/** Packages whose programs run on the machine of a service. */
const PROGRAMS = ['@cloche/cli', '@cloche/egress', '@cloche/hostd', '@cloche/server', '@cloche/setup'];

export interface ProductionPackage {
  readonly name: string;
  /** Folder in this repository. */
  readonly location: string;
  readonly dependencies?: Readonly<Record<string, string>>;
}

/** Returns the packages of this repository that a machine needs: the programs, and what they depend on. */
export function productionPackages(): ProductionPackage[] {
  const all: ProductionPackage[] = JSON.parse(runNpm('.', 'query', '.workspace'));
  const needed = new Set<ProductionPackage>();
  const need = (name: string) => {
    const found = all.find((each) => each.name === name);
    if (!found || needed.has(found)) return;
    needed.add(found);
    for (const dependency of Object.keys(found.dependencies ?? {})) need(dependency);
  };
  for (const name of PROGRAMS) need(name);
  return [...needed].sort((one, other) => one.location.localeCompare(other.location));
}
