/**
 * Returns an agent's answer without NUL characters in its texts. The texts may be stored in columns, and PostgreSQL
 * stores no text with NUL. The output of programs keeps NUL: it is stored only as JSON, where NUL is escaped.
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
