import type { CodeOutput, OutputFormat } from '@cloche/contract';

const BASE64_FORMATS: ReadonlySet<OutputFormat> = new Set<OutputFormat>(['png', 'jpeg', 'gif', 'pdf']);

/** Whether `value` is base64 of the content rather than the content. */
export function isBinaryOutput(output: Pick<CodeOutput, 'format'>): boolean {
  return BASE64_FORMATS.has(output.format);
}

/** The content of an output, as a file of it would hold it. Empty for one that is kept as an artifact. */
export function outputBytes(output: CodeOutput): Uint8Array {
  const value = output.value ?? '';
  if (!isBinaryOutput(output)) return new TextEncoder().encode(value);
  return Uint8Array.from(atob(value), (character) => character.charCodeAt(0));
}
