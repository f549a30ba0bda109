import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';

/** Trusts what the host trusts, and the roots in `extraFile`. Throws when there are none at all. */
export function trustedRoots(extraFile: string | undefined): SecureContext {
  const ofHost = getCACertificates('system');
  const extra = extraFile === undefined ? [] : [readFileSync(extraFile, 'utf8')];
  const ca = [...ofHost, ...extra];
  if (ca.length === 0) throw new Error('the host has no certificate authorities: install ca-certificates');
  return createSecureContext({ ca });
}
