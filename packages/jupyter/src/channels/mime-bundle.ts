import type { CodeOutput } from '@cloche/contract';

/** Returns the forms of one value by MIME type, as Jupyter has them: JSON as values, all others as text or base64. */
export function mimeBundleOf(outputs: readonly CodeOutput[]): Record<string, unknown> {
  return Object.fromEntries(
    outputs.map(({ mimeType, value = '' }) => [mimeType, isJson(mimeType) ? json(value) : value]),
  );
}

function isJson(mimeType: string): boolean {
  return mimeType === 'application/json' || mimeType.endsWith('+json');
}

/** The service cuts what is too long, and then it is no JSON. */
function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
