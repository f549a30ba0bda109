/** Replacements for the optional interfaces of a runtime that does not implement them. */
import { CaptureError, LaunchError, type Metering, type Versions } from './runtime-driver.ts';

/** Reports no usage and no metrics of sandboxes. */
export const WITHOUT_METERING: Metering = {
  uses: async () => [],
  usesOf: async () => [],
  measure: async () => [],
  history: async () => ({ samples: [] }),
};

/** Refuses to capture template versions. Sandboxes can start from curated templates only. */
export const WITHOUT_VERSIONS: Versions = {
  capture: async () => {
    throw new CaptureError('refused', 'The runtime of this service makes no template versions of sandboxes.');
  },
  deriveVersion: async () => {
    throw new LaunchError('unsupported', 'the runtime makes no template versions');
  },
  capturedVersionRefs: async () => [],
  removeVersion: async () => {},
};
