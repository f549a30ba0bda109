import type { CodeOutput } from '@cloche/contract';
import { parsePlainJson } from '@cloche/node-support';
import type { Fields } from './message.ts';

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

/** Types of forms that only this service has. */
const OWN_TYPE = /^application\/vnd\.cloche\./;

/** Where a request asks for them: `"metadata": { "cloche": { "forms": true } }`. */
export function asksForOwnForms({ cloche }: Fields): boolean {
  return typeof cloche === 'object' && cloche !== null && 'forms' in cloche && cloche.forms === true;
}

/**
 * Returns the content without the forms of its value that only this service has: programs that know no such type show
 * them as text.
 */
export function withoutOwnForms(content: Fields): Fields {
  const { data, metadata } = content;
  if (!hasOwnForms(data) && !hasOwnForms(metadata)) return content;
  return { ...content, data: others(data), metadata: others(metadata) };
}

/** Returns the reply of a cell with the values of its expressions, as above. */
export function withPlainExpressions(reply: Fields): Fields {
  const { user_expressions: values } = reply;
  if (!isFields(values)) return reply;
  const plain = Object.entries(values).map(([name, value]) => [name, isFields(value) ? withoutOwnForms(value) : value]);
  return { ...reply, user_expressions: Object.fromEntries(plain) };
}

function hasOwnForms(forms: unknown): boolean {
  return isFields(forms) && Object.keys(forms).some((type) => OWN_TYPE.test(type));
}

function others(forms: unknown): unknown {
  return isFields(forms) ? Object.fromEntries(Object.entries(forms).filter(([type]) => !OWN_TYPE.test(type))) : forms;
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null;
}
