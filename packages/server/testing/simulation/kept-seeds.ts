/** Seeds that once violated an invariant because of a fault of the product. They are always run. */
export const KEPT_SEEDS: readonly { readonly seed: number; readonly fault: string }[] = [
  { seed: 79, fault: 'a launch stopped its ready sandbox when the answer to its last commit was lost' },
  { seed: 534, fault: 'a launch did the same, as the only thing that happened' },
];
