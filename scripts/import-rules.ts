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
  const targets = new Map<string, string[]>();
  for (const { from, to, isOfTypes } of imports) {
    if (isOfTypes || !to.startsWith('.')) continue;
    targets.set(from, [...(targets.get(from) ?? []), normalize(join(dirname(from), to))]);
  }
  const visited = new Set<string>();
  const visit = (file: string, path: readonly string[]): string[] => {
    if (path.includes(file)) return [[...path.slice(path.indexOf(file)), file].join(' → ')];
    if (visited.has(file)) return [];
    visited.add(file);
    return (targets.get(file) ?? []).flatMap((target) => visit(target, [...path, file]));
  };
  return [...targets.keys()].flatMap((file) => visit(file, []));
}
