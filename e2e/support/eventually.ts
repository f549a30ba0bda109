/** Waits until `condition` holds; for what no event announces. */
export async function eventually(condition: () => Promise<boolean> | boolean, withinMs = 15_000): Promise<void> {
  const deadline = Date.now() + withinMs;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`not so within ${withinMs} ms: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
