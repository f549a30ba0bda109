import { SourceMap, type SourceMapPayload } from 'node:module';
import { fileURLToPath } from 'node:url';
import { originalPosition, type Position } from '../source-position.ts';

/** Number of latest cells whose positions are mapped. */
const MAX_CELLS = 1000;

/** Makes all stack traces, including those that user code prints, show the cell's original code and omit the kernel. */
export class StackTraces {
  readonly #kernelFile: string;
  /** Source maps by file name. Parsed when an error first needs them. */
  readonly #sourceMaps = new Map<string, string[] | SourceMap[]>();

  constructor(kernelFile: string) {
    this.#kernelFile = kernelFile;
  }

  /** Source maps of compiled files, by path. */
  readonly #files = new Map<string, string | SourceMap>();

  install(): void {
    Error.prepareStackTrace = (error, frames) => {
      const header = headerOf(error);
      const lines = this.#withoutKernel(frames).map((frame) => `\n    at ${this.#map(frame)}`);
      return header + lines.join('');
    };
  }

  remember(fileName: string, sourceMaps: string[]): void {
    this.#sourceMaps.set(fileName, sourceMaps);
    const [oldest] = this.#sourceMaps.keys();
    if (this.#sourceMaps.size > MAX_CELLS && oldest !== undefined) this.#sourceMaps.delete(oldest);
  }

  rememberFile(path: string, sourceMap: string): void {
    this.#files.set(path, sourceMap);
  }

  /** Removes the kernel's frames, and all frames below the cell. */
  #withoutKernel(frames: NodeJS.CallSite[]): NodeJS.CallSite[] {
    const isKernel = (frame: NodeJS.CallSite) => frame.getFileName() === this.#kernelFile || this.#isAdded(frame);
    const isMachinery = (frame: NodeJS.CallSite) =>
      isKernel(frame) || frame.getFileName()?.startsWith('node:internal/');
    const last = frames.findLastIndex((frame) => !isMachinery(frame));
    return frames.slice(0, last + 1).filter((frame) => !isKernel(frame));
  }

  /** Returns whether compiling added the code of a frame, such as the code that applies decorators. */
  #isAdded(frame: NodeJS.CallSite): boolean {
    const fileName = frame.getFileName();
    if (!fileName || !this.#sourceMaps.has(fileName)) return false;
    const [line, column] = [frame.getLineNumber() ?? 1, frame.getColumnNumber() ?? 1];
    return this.#original(fileName, { line: line - 1, column: column - 1 }) === undefined;
  }

  #map(frame: NodeJS.CallSite): string {
    return this.#inFile(frame) ?? this.#inCells(String(frame));
  }

  #inFile(frame: NodeJS.CallSite): string | undefined {
    const fileName = frame.getFileName() ?? '';
    const path = fileName.startsWith('file:') ? fileURLToPath(fileName) : fileName;
    const known = this.#files.get(path);
    if (known === undefined) return undefined;
    const map = typeof known === 'string' ? new SourceMap(JSON.parse(known) as SourceMapPayload) : known;
    this.#files.set(path, map);
    const [line, column] = [frame.getLineNumber() ?? 1, frame.getColumnNumber() ?? 1];
    const mapped = originalPosition([map], { line: line - 1, column: column - 1 });
    return mapped && String(frame).replace(`:${line}:${column}`, `:${mapped.line + 1}:${mapped.column + 1}`);
  }

  #inCells(frame: string): string {
    return frame.replace(/\b(cell-\d+):(\d+):(\d+)/g, (position, fileName: string, line: string, column: string) => {
      const mapped = this.#original(fileName, { line: Number(line) - 1, column: Number(column) - 1 });
      return mapped ? `${fileName}:${mapped.line + 1}:${mapped.column + 1}` : position;
    });
  }

  #original(fileName: string, position: Position): Position | undefined {
    return originalPosition(this.#mapsOf(fileName), position);
  }

  #mapsOf(fileName: string): SourceMap[] {
    const maps = this.#sourceMaps.get(fileName) ?? [];
    const parsed = maps.map((map) =>
      typeof map === 'string' ? new SourceMap(JSON.parse(map) as SourceMapPayload) : map,
    );
    if (maps.length > 0) this.#sourceMaps.set(fileName, parsed);
    return parsed;
  }
}

function headerOf(error: Error): string {
  try {
    return Error.prototype.toString.call(error);
  } catch {
    return '<error>';
  }
}
