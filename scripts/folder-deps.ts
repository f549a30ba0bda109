/**
 * The folders of a package that name what they import. A folder with a file `DEPS` lists there, a line each, the
 * folders and files of the package that its own files import, with paths from `src`. A line may name the parent of
 * several such folders. Files directly in `src` have no list.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { circlesOf, type Import } from './import-rules.ts';

export const DEPS = 'DEPS';

/** An import from one folder to another. A folder has a `DEPS` file, or is a single file directly in `src`. */
interface Edge {
  readonly from: string;
  readonly to: string;
  /** The file that imports. */
  readonly by: string;
}

export class FolderDeps {
  readonly #root: string;
  readonly #deps: ReadonlyMap<string, readonly string[]>;

  /**
   * @param root folder of the package's sources, with a slash at its end
   * @param deps lines of each list, by the path of its folder from `src`
   */
  constructor(root: string, deps: ReadonlyMap<string, readonly string[]>) {
    this.#root = root;
    this.#deps = deps;
  }

  /** Reads the lists of a package. */
  static read(root: string, files: readonly string[]): FolderDeps {
    const deps = new Map<string, readonly string[]>();
    for (const file of files) {
      for (let folder = dirname(file); folder !== '.' && !deps.has(folder); folder = dirname(folder)) {
        const list = join(root, folder, DEPS);
        if (existsSync(list)) deps.set(folder, readFileSync(list, 'utf8').split('\n').filter(Boolean));
      }
    }
    return new FolderDeps(root, deps);
  }

  /**
   * Returns the folder with a list that contains a file, the file itself where it is directly in `src`, or undefined.
   */
  placeOf(file: string): string | undefined {
    if (!file.includes('/')) return file;
    for (let folder = dirname(file); folder !== '.'; folder = dirname(folder))
      if (this.#deps.has(folder)) return folder;
    return undefined;
  }

  /** Returns imports that a list does not name, and lines of lists that nothing needs. */
  faults(imports: readonly Import[]): string[] {
    const edges = this.#edges(imports);
    const unnamed = edges.filter(({ from, to }) => this.#deps.get(from)?.some((line) => names(line, to)) === false);
    const needless = [...this.#deps].flatMap(([folder, lines]) =>
      lines
        .filter((line) => !edges.some(({ from, to }) => from === folder && names(line, to)))
        .map((line) => `${join(folder, DEPS)} names ${line}, which nothing there imports`),
    );
    return [
      ...unnamed.map(({ by, from, to }) => `${by} imports ${to}, which ${join(from, DEPS)} does not name`),
      ...needless,
    ];
  }

  /** Returns the circles of places that import each other, types included. */
  circles(imports: readonly Import[]): string[] {
    return circlesOf(this.#edges(imports));
  }

  #edges(imports: readonly Import[]): Edge[] {
    return imports.flatMap(({ from, to }) => {
      if (!from.startsWith(this.#root) || !to.startsWith('.')) return [];
      const by = from.slice(this.#root.length);
      const [own, other] = [by, normalize(join(dirname(by), to))].map((file) => this.placeOf(file));
      return own === undefined || other === undefined || own === other ? [] : [{ from: own, to: other, by }];
    });
  }
}

function names(line: string, place: string): boolean {
  return place === line || place.startsWith(`${line}/`);
}
