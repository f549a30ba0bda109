import { dirname, join, normalize } from 'node:path';

/** Names the files of `src` that the layers of their package do not name. They count as one folder. */
export const OTHER_FILES = '*.ts';

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

/** The layers of a package, from the bottom up: folders of its `src`, or files in it. */
export class Layers {
  readonly #root: string;
  readonly #layers: readonly (readonly string[])[];
  readonly #places: readonly string[];

  /** @param root folder of the package's sources, with a slash at its end. */
  constructor(root: string, layers: readonly (readonly string[])[]) {
    this.#root = root;
    this.#layers = layers;
    this.#places = layers.flat();
  }

  /** Returns the folder or file of the layers that contains a file of the package: the longest match. */
  placeOf(file: string): string | undefined {
    return (
      this.#places
        .filter((place) => file === place || file.startsWith(`${place}/`))
        .sort((one, other) => other.length - one.length)[0] ??
      (this.#places.includes(OTHER_FILES) && !file.includes('/') ? OTHER_FILES : undefined)
    );
  }

  heightOf(place: string | undefined): number {
    return this.#layers.findIndex((layer) => layer.includes(place ?? ''));
  }

  /** Returns the imports, types included, that lead neither into the own folder nor into a lower layer. */
  upwardImports(imports: readonly Import[]): string[] {
    return imports.flatMap(({ from, to }) => {
      if (!from.startsWith(this.#root) || !to.startsWith('.')) return [];
      const source = from.slice(this.#root.length);
      const target = normalize(join(dirname(source), to));
      const [own, other] = [this.placeOf(source), this.placeOf(target)];
      return own === other || this.heightOf(other) < this.heightOf(own) ? [] : [`${source} imports ${target}`];
    });
  }
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
