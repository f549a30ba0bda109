import type { CodeOutput } from '@cloche/contract';
import { parsePlainJson } from '@cloche/node-support';

/** Most values of one form. */
const MAX_VALUES = 500_000;

/** Returns the forms of one value by MIME type, as Jupyter has them: JSON as values, all others as text or base64. */
export function mimeBundleOf(outputs: readonly CodeOutput[]): Record<string, unknown> {
  return Object.fromEntries(
    outputs.map(({ mimeType, value = '' }) => [mimeType, isJson(mimeType) ? json(value) : value]),
  );
}

function isJson(mimeType: string): boolean {
  return mimeType === 'application/json' || mimeType.endsWith('+json');
}

/** Returns the text itself if the service has cut it, so that it is no JSON, or if it has too many values or levels. */
function json(text: string): unknown {
  try {
    return parsePlainJson(text, MAX_VALUES);
  } catch {
    return text;
  }
}
