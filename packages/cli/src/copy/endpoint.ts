import { basename } from 'node:path';
import { UsageError } from '../cli-error.ts';

/** One side of a copy. */
export type Endpoint =
  | { readonly kind: 'local'; readonly path: string }
  | { readonly kind: 'standard' }
  | { readonly kind: 'sandbox'; readonly sandboxId: string; readonly path: string };

/** `sbx_…:/path` is in a sandbox, `-` is standard input or output, everything else is here. */
export function readEndpoint(text: string): Endpoint {
  if (text === '-') return { kind: 'standard' };
  const [, sandboxId, path] = /^(sbx_[^:/]*):(.*)$/s.exec(text) ?? [];
  if (sandboxId === undefined || path === undefined) return { kind: 'local', path: text };
  if (path === '') throw new UsageError(`Give a path behind ${sandboxId}: such as ${sandboxId}:/workspace`);
  return { kind: 'sandbox', sandboxId, path };
}

/** `from` under its own name inside `to`, where `to` is a directory or is written as one. */
export function insideOf(to: string, from: string): string {
  return `${to.replace(/\/+$/, '')}/${nameOf(from)}`;
}

/** `folder/.` means what is in the folder, as it does for `cp`. */
export function meansContent(path: string): boolean {
  return /(^|\/)\.?\.?$/.test(path) && !/[^/]\/+$/.test(path);
}

function nameOf(path: string): string {
  return basename(path);
}
