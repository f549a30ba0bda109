import type { SandboxId } from '@cloche/contract';
import { ClocheError } from '@cloche/sdk';

/** Templates of the URIs of resources. */
export const FILE_TEMPLATE = 'cloche://sandbox/{sandboxId}/{+path}';
export const ARTIFACT_TEMPLATE = 'cloche://artifact/{artifactId}';

export type ResourceName =
  | { readonly kind: 'file'; readonly sandboxId: SandboxId; readonly path: string }
  | { readonly kind: 'artifact'; readonly artifactId: string };

export function fileUri(sandboxId: string, path: string): string {
  const absolute = path.startsWith('/') ? path : `/workspace/${path}`;
  return `cloche://sandbox/${sandboxId}${absolute.split('/').map(encodeURIComponent).join('/')}`;
}

export function artifactUri(artifactId: string): string {
  return `cloche://artifact/${artifactId}`;
}

/** Returns what a URI names. @throws {ClocheError} `invalid_request` */
export function resourceAt(uri: string): ResourceName {
  const { protocol, host, pathname = '' } = URL.parse(uri) ?? {};
  const [, first = '', path = ''] = /^\/([^/]+)(\/.+)?$/.exec(pathname) ?? [];
  if (protocol === 'cloche:' && host === 'artifact' && first !== '' && path === '')
    return { kind: 'artifact', artifactId: first };
  if (protocol === 'cloche:' && host === 'sandbox' && path !== '')
    return { kind: 'file', sandboxId: first as SandboxId, path: decoded(path, uri) };
  throw invalid(uri);
}

function decoded(path: string, uri: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    throw invalid(uri);
  }
}

function invalid(uri: string): ClocheError {
  const forms = `${FILE_TEMPLATE} and ${ARTIFACT_TEMPLATE}`;
  return new ClocheError('invalid_request', `${uri.slice(0, 200)} is no resource. The forms are ${forms}.`);
}
