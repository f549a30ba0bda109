import type { Instruction } from './instructions.ts';

/** Returns the words of the JSON form (`["a", "b"]`), or undefined for the other form, as Docker decides it. */
export function readList({ text }: Pick<Instruction, 'text'>): string[] | undefined {
  if (!text.startsWith('[')) return undefined;
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) && list.every((each) => typeof each === 'string') ? list : undefined;
  } catch {
    return undefined;
  }
}
