import { hash } from 'node:crypto';
import { canonicalJson } from '../base/canonical-json.ts';

/** Returns the hex hash that identifies a request body. */
export function hashBody(body: unknown): string {
  return hash('sha256', canonicalJson(body ?? {}), 'hex');
}
