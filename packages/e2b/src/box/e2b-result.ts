import type { CodeOutput, OutputFormat } from '@cloche/contract';

/** Formats that have a field of their own in a result of E2B. The others are in `extra`, by media type. */
const FIELDS: Partial<Record<OutputFormat, string>> = {
  text: 'text',
  html: 'html',
  markdown: 'markdown',
  svg: 'svg',
  png: 'png',
  jpeg: 'jpeg',
  pdf: 'pdf',
  latex: 'latex',
  javascript: 'javascript',
};
const QUOTED = /^(['"])([\s\S]*)\1$/;

/** Returns the forms of one value as one result; none for no forms. */
export function resultsOf(forms: readonly CodeOutput[]): object[] {
  const [first] = forms;
  if (!first) return [];
  const result: Record<string, unknown> = { type: 'result', is_main_result: first.role === 'result' };
  const extra: Record<string, unknown> = {};
  for (const form of forms) {
    const field = FIELDS[form.format];
    const value = form.value ?? '';
    if (field) result[field] = form.format === 'text' ? unquoted(value) : value;
    else if (form.format === 'json') result.json = JSON.parse(value);
    else if (form.format !== 'chart' && form.format !== 'data') extra[form.mimeType] = value;
  }
  if (Object.keys(extra).length > 0) result.extra = extra;
  return [result];
}

/** E2B's clients expect a string without its quotes. */
function unquoted(text: string): string {
  return QUOTED.exec(text)?.[2] ?? text;
}
