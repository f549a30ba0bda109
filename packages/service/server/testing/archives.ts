import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TarHeader, writeTarHeader } from '@cloche/archive';

export type TarEntry = readonly [header: Partial<TarHeader> & { name: string }, content?: string];

/** Returns a tar of these entries, as an attacker could write it. */
export function tarOf(...entries: TarEntry[]): Buffer {
  const blocks = entries.flatMap(([header, content = '']) => {
    const size = Buffer.byteLength(content);
    const full = { flag: '0', mode: 0o644, mtime: 0, linkName: '', size, ...header };
    return [writeTarHeader(full), Buffer.from(content), Buffer.alloc((512 - (size % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

/** A tar without entries. */
export const EMPTY_TAR = Buffer.alloc(1024);
export const EMPTY_ARCHIVE = { ...digestOf(EMPTY_TAR), format: 'tar' } as const;

export function digestOf(bytes: Buffer): { sizeBytes: number; sha256: string } {
  return { sizeBytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
}

export const linkTo = (name: string, linkName: string, flag = '2'): TarEntry => [{ name, flag, linkName }];
export const fileAt = (name: string, header: Partial<TarHeader> = {}): TarEntry => [{ ...header, name }, 'content'];

/** Runs Python with `zipfile` imported and `z` open for writing at `path`. */
export function writeZip(path: string, ...lines: string[]): void {
  const script = [
    'import sys, zipfile',
    'with zipfile.ZipFile(sys.argv[1], "w") as z:',
    ...lines.map((l) => `    ${l}`),
  ];
  execFileSync('python3', ['-c', script.join('\n'), path]);
}

/** Bytes of the files of `makeWorkspace`. */
export const WORKSPACE_BYTES = 300_000 + 10 + 7;

/** Makes a folder with seven entries such as a client uploads: nested folders, a program, a large file and a link. */
export function makeWorkspace(folder: string): void {
  mkdirSync(join(folder, 'src/deep'), { recursive: true });
  writeFileSync(join(folder, 'src/program'), '#!/bin/sh\n', { mode: 0o755 });
  writeFileSync(join(folder, 'src/deep/größe 名前'), 'Größe');
  writeFileSync(join(folder, 'large'), Buffer.alloc(300_000, 'large'));
  writeFileSync(join(folder, 'empty'), '');
  symlinkSync('src/program', join(folder, 'link'));
}

/** Commands that pack the entries of the current folder into the file `$1`. */
export const PACKERS = {
  tar: 'tar -cf "$1" *',
  'tar.gz': 'tar -czf "$1" *',
  'tar.zst': 'tar --zstd -cf "$1" *',
  zip: 'zip -qry "$1" .',
} as const;

/** Packs a folder with the system's own programs. */
export function packWith(format: keyof typeof PACKERS, folder: string, archive: string): void {
  execFileSync('sh', ['-c', PACKERS[format], 'sh', archive], { cwd: folder });
}
