import { dirname, join, normalize } from 'node:path';

export interface Import {
  readonly from: string;
  /** As written: a package, or a path relative to `from`. */
  readonly to: string;
  /** Whether the statement imports types only. Node then loads nothing. */
  readonly isOfTypes?: boolean;
}

/** Returns the imports of a file. */
export function importsOf(from: string, source: string): Import[] {
  const statements = source.matchAll(
    /^(?:import|export)\b( type\b(?=[^=;'"]*from '))?[^'"]*?from '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)/gm,
  );
  return [...statements].map(([, type, ...targets]) => ({
    from,
    to: targets.find((target) => target !== undefined) ?? '',
    isOfTypes: type !== undefined,
  }));
}

/** Returns the name of the package of a file: `packages/<where it runs>/<name>/…`. */
export function packageOf(file: string): string {
  return file.split('/')[2] ?? '';
}

/** Returns the imports of packages that the importing package may not import. */
export function forbiddenPackages(
  mayImport: Readonly<Record<string, readonly string[]>>,
  imports: readonly Import[],
): string[] {
  return imports.flatMap(({ from, to }) => {
    const name = packageOf(from);
    const imported = /^@cloche\/([a-z0-9-]+)/.exec(to)?.[1];
    const isAllowed = imported === undefined || imported === name || mayImport[name]?.includes(imported);
    return isAllowed ? [] : [`${from} imports ${to}`];
  });
}

/** Returns the circles of files that import each other, types not counted. */
export function circles(imports: readonly Import[]): string[] {
  const made = imports.filter(({ to, isOfTypes }) => !isOfTypes && to.startsWith('.'));
  return circlesOf(made.map(({ from, to }) => ({ from, to: normalize(join(dirname(from), to)) })));
}

/** Returns the circles of files or folders that import each other. */
export function circlesOf(edges: readonly { readonly from: string; readonly to: string }[]): string[] {
  const targets = Map.groupBy(edges, ({ from }) => from);
  const visited = new Set<string>();
  const visit = (place: string, path: readonly string[]): string[] => {
    if (path.includes(place)) return [[...path.slice(path.indexOf(place)), place].join(' → ')];
    if (visited.has(place)) return [];
    visited.add(place);
    const next = new Set(targets.get(place)?.map(({ to }) => to));
    return [...next].flatMap((target) => visit(target, [...path, place]));
  };
  return [...targets.keys()].flatMap((place) => visit(place, []));
}
