/** Output streams of a program, in the order of a kernel's pipes. */
export const STANDARD_STREAMS = ['stdout', 'stderr'] as const;

export type StandardStream = (typeof STANDARD_STREAMS)[number];
