import type { CallToolResult } from '@modelcontextprotocol/server';

const UNKNOWN = 'application/octet-stream';
/** Pictures that hosts show to a model. */
const PICTURES: readonly string[] = ['image/gif', 'image/jpeg', 'image/png', 'image/webp'];

/** The content of a file: text if its bytes are UTF-8, and otherwise bytes. */
export interface FileContent {
  readonly uri: string;
  readonly mimeType: string;
  readonly bytes: Uint8Array;
  readonly text: string | undefined;
}

export function contentOf(bytes: Uint8Array, contentType: string, uri: string): FileContent {
  const [type = contentType] = contentType.split(';');
  const text = isShown(type) ? undefined : textOf(bytes);
  return { uri, mimeType: text !== undefined && type === UNKNOWN ? 'text/plain' : type, bytes, text };
}

/** Returns the content as a resource that is read or embedded. */
export function asResource({ uri, mimeType, bytes, text }: FileContent) {
  return text === undefined ? { uri, mimeType, blob: base64Of(bytes) } : { uri, mimeType, text };
}

/** Returns the content in the form in which hosts show it: a picture, a sound, or an embedded resource. */
export function asBlock(content: FileContent): CallToolResult['content'][number] {
  const { mimeType, bytes } = content;
  if (!isShown(mimeType)) return { type: 'resource', resource: asResource(content) };
  return { type: PICTURES.includes(mimeType) ? 'image' : 'audio', data: base64Of(bytes), mimeType };
}

function isShown(type: string): boolean {
  return PICTURES.includes(type) || type.startsWith('audio/');
}

/** Returns undefined for bytes that are no text. */
function textOf(bytes: Uint8Array): string | undefined {
  if (bytes.includes(0)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function base64Of(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}
