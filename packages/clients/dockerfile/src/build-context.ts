import {
  closeSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  realpathSync,
  type Stats,
  statSync,
} from 'node:fs';
import { basename, dirname, join, posix, relative, sep } from 'node:path';
import { DockerfileError } from './dockerfile-error.ts';
import { IgnorePatterns, patternMatcher } from './ignore-patterns.ts';
import type { CopyStep } from './plan.ts';

/** A file, directory or link that a `COPY` puts into the template. */
export interface CopiedEntry {
  /** Absolute path in the template. */
  readonly path: string;
  readonly type: 'file' | 'directory' | 'symlink';
  /** Permission bits. */
  readonly mode: number;
  readonly sizeBytes: number;
  /** Local path of the content of a file; `content` instead for an inline file. */
  readonly localPath?: string;
  readonly content?: Buffer;
  /** Target of a link. */
  readonly target?: string;
}

/** The folder that a Dockerfile copies from, without what `.dockerignore` excludes. */
export class BuildContext {
  readonly #folder: string;
  readonly #ignored: IgnorePatterns;

  /**
   * @param folder must exist
   * @param dockerfile whose `<name>.dockerignore` beside it comes before the folder's `.dockerignore`
   */
  constructor(folder: string, dockerfile: string) {
    this.#folder = realpathSync(folder);
    const own = join(dirname(dockerfile), `${basename(dockerfile)}.dockerignore`);
    this.#ignored = new IgnorePatterns(readIfExists(own) ?? readIfExists(join(folder, '.dockerignore')) ?? '');
  }

  /**
   * Lists what a `COPY` copies, a directory before its entries, and names in the order of their bytes.
   *
   * @throws {DockerfileError} if a source does not exist, or is neither a file nor a directory.
   */
  *entries(step: CopyStep): Generator<CopiedEntry, void> {
    const sources = step.sources.flatMap((source) => this.#resolve(source, step));
    const isInto = step.to.endsWith('/');
    if (!isInto && sources.length + step.inline.length > 1)
      throw new DockerfileError(
        step.line,
        `${step.sources.join(' ')} is more than one source; end the target with a slash: ${step.to}/.`,
      );
    for (const source of sources) {
      const stat = statSync(join(this.#folder, source));
      if (stat.isDirectory()) yield* this.#directory(source, step.to, stat, step);
      else yield this.#entry(source, isInto ? posix.join(step.to, posix.basename(source)) : step.to, stat, step);
    }
    for (const { name, content } of step.inline) {
      const bytes = Buffer.from(content);
      const path = isInto ? posix.join(step.to, name) : step.to;
      yield { path, type: 'file', mode: step.mode ?? 0o644, sizeBytes: bytes.length, content: bytes };
    }
  }

  /** Returns the paths that a source means, relative to the folder. */
  #resolve(source: string, { line }: CopyStep): string[] {
    const path = posix.normalize(`./${source}`).replace(/\/$/, '').replace(/^\/+/, '') || '.';
    const isPattern = /[*?[\\]/.test(path);
    const found = isPattern ? [...this.#matching(path)] : this.#exists(path) ? [path] : [];
    const included = found.filter((each) => each === '.' || !this.#ignored.excludes(each) || this.#keepsSome(each));
    if (included.length > 0) return included;
    if (found.length > 0) throw new DockerfileError(line, `${source} is excluded by .dockerignore.`);
    throw new DockerfileError(
      line,
      isPattern ? `${source} matches no file.` : `${source} does not exist in ${this.#folder}.`,
    );
  }

  /** Whether exceptions of `.dockerignore` may keep entries of an excluded directory. */
  #keepsSome(path: string): boolean {
    return this.#ignored.hasExceptions && statSync(join(this.#folder, path)).isDirectory();
  }

  #exists(path: string): boolean {
    const found = statSync(join(this.#folder, path), { throwIfNoEntry: false });
    if (!found) return false;
    const real = relative(this.#folder, realpathSync(join(this.#folder, path)));
    return real !== '..' && !real.startsWith(`..${sep}`);
  }

  /** Finds paths by a pattern in which each part matches one name, in the order of their bytes. */
  *#matching(pattern: string): Generator<string> {
    const parts = pattern.split('/');
    let folders = ['.'];
    for (const [index, part] of parts.entries()) {
      const matches = patternMatcher(part.replaceAll('**', '*'));
      const next: string[] = [];
      for (const folder of folders) {
        for (const name of namesIn(join(this.#folder, folder))) {
          const path = posix.join(folder, name);
          const isLast = index === parts.length - 1;
          if (matches(name) && this.#exists(path) && (isLast || statSync(join(this.#folder, path)).isDirectory()))
            next.push(path);
        }
      }
      folders = next;
    }
    yield* folders;
  }

  /** Yields a directory's own entry, and its content at `to`. */
  *#directory(source: string, to: string, stat: Stats, step: CopyStep): Generator<CopiedEntry, void> {
    const path = to === '/' ? '/' : to.replace(/\/$/, '');
    if (path !== '/') yield { path, type: 'directory', mode: step.mode ?? stat.mode & 0o7777, sizeBytes: 0 };
    for (const name of namesIn(join(this.#folder, source))) {
      const inner = posix.join(source, name);
      const isExcluded = this.#ignored.excludes(inner);
      const innerStat = lstatSync(join(this.#folder, inner));
      if (innerStat.isDirectory()) {
        if (isExcluded && !this.#ignored.hasExceptions) continue;
        const entries = this.#directory(inner, posix.join(path, name), innerStat, step);
        yield* isExcluded ? unlessEmpty(entries) : entries;
      } else if (!isExcluded) yield this.#entry(inner, posix.join(path, name), innerStat, step);
    }
  }

  #entry(source: string, path: string, stat: Stats, step: CopyStep): CopiedEntry {
    const localPath = join(this.#folder, source);
    if (stat.isSymbolicLink()) {
      return { path, type: 'symlink', mode: 0o777, sizeBytes: 0, target: readlinkSync(localPath) };
    }
    if (!stat.isFile())
      throw new DockerfileError(step.line, `${source} is neither a file nor a directory; exclude it in .dockerignore.`);
    if (step.keyword === 'ADD' && isArchive(localPath))
      throw new DockerfileError(
        step.line,
        `ADD of the archive ${source} is not supported; copy it with COPY, and unpack it with RUN tar -xf.`,
      );
    return { path, type: 'file', mode: step.mode ?? stat.mode & 0o7777, sizeBytes: stat.size, localPath };
  }
}

/** Yields a directory's own entry and what follows only if something follows. */
function* unlessEmpty(entries: Generator<CopiedEntry, void>): Generator<CopiedEntry, void> {
  const own = entries.next();
  const first = entries.next();
  if (own.done || first.done) return;
  yield own.value;
  yield first.value;
  yield* entries;
}

function namesIn(folder: string): string[] {
  return readdirSync(folder).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

function readIfExists(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Returns whether a file is one that Docker's `ADD` unpacks: a tar, alone or in gzip, bzip2 or xz. */
function isArchive(file: string): boolean {
  const head = Buffer.alloc(512);
  const fd = openSync(file, 'r');
  try {
    readSync(fd, head);
  } finally {
    closeSync(fd);
  }
  const isCompressed = ['1f8b', '425a68', 'fd377a585a00'].some((magic) => head.toString('hex').startsWith(magic));
  return isCompressed || head.toString('latin1', 257, 262) === 'ustar';
}
