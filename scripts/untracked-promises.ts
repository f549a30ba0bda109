/**
 * Keeps Node's test runner from tracking each promise, which takes a sixth of the processor time of tests with a
 * server. It then no longer knows which test an uncaught error belongs to: such an error ends the file's process, and
 * `node --test FILE` names the test.
 */
import { type AsyncHook, createHook } from 'node:async_hooks';

/** Properties of a hook, some of which have symbols of Node as their names. */
type Properties = Record<symbol, unknown>;

/** Runs `start`, in which the runner installs its hook. */
export function withoutTrackedPromises(start: () => void): void {
  const hook = createHook({ trackPromises: false });
  const flag = Object.getOwnPropertySymbols(hook).find((name) => (hook as unknown as Properties)[name] === true);
  const prototype: AsyncHook = Object.getPrototypeOf(hook);
  const { enable } = prototype;
  prototype.enable = function (this: AsyncHook) {
    if (flag !== undefined) (this as unknown as Properties)[flag] = true;
    return enable.call(this);
  };
  try {
    start();
  } finally {
    prototype.enable = enable;
  }
}
