/** The `skip` option of a test that only root can run. */
export const needsRoot = process.getuid?.() === 0 ? false : 'needs root';
