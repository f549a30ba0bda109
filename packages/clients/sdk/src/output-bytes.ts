import type { CodeOutput, OutputFormat } from '@cloche/contract';

const BASE64_FORMATS: ReadonlySet<OutputFormat> = new Set<OutputFormat>(['png', 'jpeg', 'gif', 'pdf']);

/** Returns whether `value` is the content encoded as base64. */
export function isBinaryOutput(output: Pick<CodeOutput, 'format'>): boolean {
  return BASE64_FORMATS.has(output.format);
}

/** Returns the content of an output. Empty if it is stored as an artifact. */
export function outputBytes(output: CodeOutput): Uint8Array {
  const value = output.value ?? '';
  if (!isBinaryOutput(output)) return new TextEncoder().encode(value);
  return Uint8Array.from(atob(value), (character) => character.charCodeAt(0));
}
