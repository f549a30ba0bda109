/** What services use where a runtime lacks an optional part. */
import { CaptureError, LaunchError, type Metering, type Versions } from './runtime-driver.ts';

/** Sandboxes are served, and what they use is not known. */
export const WITHOUT_METERING: Metering = {
  uses: async () => [],
  measure: async () => [],
  history: async () => ({ samples: [] }),
};

/** Sandboxes start from curated templates alone. */
export const WITHOUT_VERSIONS: Versions = {
  capture: async () => {
    throw new CaptureError('refused', 'The runtime of this service makes no template versions of sandboxes.');
  },
  deriveVersion: async () => {
    throw new LaunchError('unsupported', 'the runtime makes no template versions');
  },
  madeVersions: async () => [],
  removeVersion: async () => {},
};
