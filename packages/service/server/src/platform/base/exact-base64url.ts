/** Decodes base64url. Returns undefined for any other spelling of the same bytes, which `Buffer.from` would accept. */
export function decodeExactly(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64url');
  return bytes.toString('base64url') === text ? bytes : undefined;
}
