/** Parses the arguments of `npm test`. */

/** Stages of `npm test -- quick`. */
export const QUICK_STAGES: readonly string[] = ['types', 'lint', 'unit'];
/** Stages that need neither root nor sandboxes. */
export const ROOTLESS_STAGES: readonly string[] = [...QUICK_STAGES, 'simulation', 'python'];

export type TestArguments =
  | {
      readonly kind: 'run';
      readonly stages: readonly string[];
      /** Stages that were asked for and need root, which the user is not. */
      readonly skipped: readonly string[];
      /** Whether to compare the host before and after, which requires root. */
      readonly comparesHost: boolean;
      /** Whether these are all stages. */
      readonly isWhole: boolean;
    }
  | { readonly kind: 'help'; readonly text: string }
  | { readonly kind: 'error'; readonly text: string };

/**
 * @param known the names of all stages, in the order in which they run
 * @param isRoot whether the user is root. The stages that need root are skipped for another one.
 */
export function readTestArguments(args: readonly string[], known: readonly string[], isRoot: boolean): TestArguments {
  if (args.includes('--help') || args.includes('-h')) return { kind: 'help', text: helpText(known) };
  const run = (asked: readonly string[], isWhole: boolean): TestArguments => {
    const stages = asked.filter((name) => isRoot || ROOTLESS_STAGES.includes(name));
    const skipped = asked.filter((name) => !stages.includes(name));
    return { kind: 'run', stages, skipped, comparesHost: isRoot && !args.includes('quick'), isWhole };
  };
  if (args.length === 0) return run(known, isRoot);
  if (args.includes('quick')) {
    if (args.length === 1) return run(QUICK_STAGES, false);
    return { kind: 'error', text: `\`quick\` takes no other argument.\n\n${helpText(known)}` };
  }
  const unknown = args.find((name) => !known.includes(name));
  if (unknown !== undefined) return { kind: 'error', text: `There is no stage "${unknown}".\n\n${helpText(known)}` };
  return run(
    known.filter((name) => args.includes(name)),
    false,
  );
}

/** Describes what a run left out; undefined after all stages. */
export function describeNotRun(run: { stages: readonly string[]; comparesHost: boolean }, known: readonly string[]) {
  const left = known.filter((name) => !run.stages.includes(name));
  if (!run.comparesHost) left.push('the check of what the tests leave on the host');
  return left.length === 0 ? undefined : `Not run: ${left.join(', ')}. \`npm test\` runs everything.`;
}

function helpText(known: readonly string[]): string {
  return `npm test               every stage, then a check that nothing is left on the host
npm test -- quick      ${QUICK_STAGES.join(', ')}: no sandboxes, about two minutes
npm test -- <stage>…   these stages alone: ${known.join(', ')}

Without root, ${ROOTLESS_STAGES.join(', ')} run, without some unit tests; the others are skipped.`;
}
