export interface CutBytes {
  readonly stdout?: number;
  readonly stderr?: number;
}

/** Returns what was cut from each stream, without anything else that an agent may have added; it is sent to clients. */
export function cutBytes(given: CutBytes | undefined): CutBytes | undefined {
  if (!given) return undefined;
  const { stdout, stderr } = given;
  return { ...(stdout !== undefined && { stdout }), ...(stderr !== undefined && { stderr }) };
}
