/** Parses the arguments of `npm test`. */

/** Stages of `npm test -- quick`, which need neither root nor sandboxes. */
export const QUICK_STAGES: readonly string[] = ['types', 'lint', 'unit'];

export type TestArguments =
  | {
      readonly kind: 'run';
      readonly stages: readonly string[];
      /** Whether to compare the host before and after, which requires root. */
      readonly comparesHost: boolean;
      /** Whether these are all stages. */
      readonly isWhole: boolean;
    }
  | { readonly kind: 'help'; readonly text: string }
  | { readonly kind: 'error'; readonly text: string };

/** @param known the names of all stages, in the order in which they run */
export function readTestArguments(args: readonly string[], known: readonly string[]): TestArguments {
  if (args.includes('--help') || args.includes('-h')) return { kind: 'help', text: helpText(known) };
  if (args.length === 0) return { kind: 'run', stages: known, comparesHost: true, isWhole: true };
  if (args.includes('quick')) {
    if (args.length === 1) return { kind: 'run', stages: QUICK_STAGES, comparesHost: false, isWhole: false };
    return { kind: 'error', text: `\`quick\` takes no other argument.\n\n${helpText(known)}` };
  }
  const unknown = args.find((name) => !known.includes(name));
  if (unknown !== undefined) return { kind: 'error', text: `There is no stage "${unknown}".\n\n${helpText(known)}` };
  return { kind: 'run', stages: known.filter((name) => args.includes(name)), comparesHost: true, isWhole: false };
}

/** Describes what a run left out; undefined after all stages. */
export function describeNotRun(run: { stages: readonly string[]; comparesHost: boolean }, known: readonly string[]) {
  const left = known.filter((name) => !run.stages.includes(name));
  if (!run.comparesHost) left.push('the check of what the tests leave on the host');
  return left.length === 0 ? undefined : `Not run: ${left.join(', ')}. \`npm test\` runs everything.`;
}

function helpText(known: readonly string[]): string {
  return `npm test               every stage, then a check that nothing is left on the host; takes root
npm test -- quick      ${QUICK_STAGES.join(', ')}: no sandboxes, about two minutes; without root it skips some unit tests
npm test -- <stage>…   these stages alone: ${known.join(', ')}`;
}
