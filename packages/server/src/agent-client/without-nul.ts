/**
 * Returns the answer of an agent without NUL in its texts, which may become columns of a row: PostgreSQL stores no text
 * with NUL. Output of programs keeps it; that is stored only as JSON, in which NUL is an escape.
 */
export function withoutNul<T extends object>(answer: T): T {
  const changed = Object.entries(answer).flatMap(([name, value]: [string, unknown]) =>
    typeof value === 'string' && value.includes('\0') ? [[name, cleaned(value)]] : [],
  );
  return changed.length === 0 ? answer : { ...answer, ...Object.fromEntries(changed) };
}

export function cleaned(text: string): string {
  return text.replaceAll('\0', '');
}
