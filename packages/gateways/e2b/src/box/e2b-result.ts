import type { CodeOutput, OutputFormat } from '@cloche/contract';
import { parsePlainJson } from '@cloche/node-support';
import { chartOf, dataOf } from './e2b-chart.ts';

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
/** Most values in one result. */
const MOST_VALUES = 1_000_000;
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
    else if (form.format === 'json') result.json = parsed(value);
    else if (form.format === 'chart') result.chart = chartOf(value);
    else if (form.format === 'data') result.data = dataOf(value);
    else extra[form.mimeType] = value;
  }
  if (Object.keys(extra).length > 0) result.extra = extra;
  return [result];
}

/** Returns a value that the sandbox has made; undefined if it is too large or too deep to be sent again as JSON. */
function parsed(value: string): unknown {
  try {
    return parsePlainJson(value, MOST_VALUES);
  } catch {
    return undefined;
  }
}

/** E2B's clients expect a string without its quotes. */
function unquoted(text: string): string {
  return QUOTED.exec(text)?.[2] ?? text;
}
