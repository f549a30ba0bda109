/** How a registry asks for authentication, by `WWW-Authenticate`. */
export type Challenge =
  | { readonly scheme: 'basic' }
  /** A token that `realm` issues is expected. */
  | { readonly scheme: 'bearer'; readonly realm: string; readonly service: string | undefined };

const MAX_LENGTH = 4096;
const PARAMETER = /([a-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))/gi;

/** Reads the challenge that can be met; a token counts before a password. Returns undefined where there is none. */
export function readChallenge(field: string | null): Challenge | undefined {
  if (field === null || field.length > MAX_LENGTH) return undefined;
  const bearer = /(?:^|,\s*)bearer\s+(.*)$/is.exec(field)?.[1];
  const parameters = new Map<string, string>();
  for (const [, name = '', quoted, plain = ''] of (bearer ?? '').matchAll(PARAMETER)) {
    const value = quoted === undefined ? plain : quoted.replaceAll(/\\(.)/g, '$1');
    // Parameters of a further challenge do not replace those of this one.
    if (!parameters.has(name.toLowerCase())) parameters.set(name.toLowerCase(), value);
  }
  const realm = parameters.get('realm');
  if (realm !== undefined) return { scheme: 'bearer', realm, service: parameters.get('service') };
  return /(?:^|,\s*)basic(?:\s|$)/i.test(field) ? { scheme: 'basic' } : undefined;
}
