/** Runs the guides whose commands stop services and change their settings, each on a host of its own. */
import { it } from 'node:test';
import { OPERATORS_GUIDES, runGuide } from '../support/guide.ts';
import { openGuideHost } from '../support/guide-host.ts';

/** These start and stop services several times. */
const GUIDE_MS = 280_000;

for (const file of OPERATORS_GUIDES) {
  it(`${file} does what it says on a host of its own, line by line`, async () => {
    const host = await openGuideHost();
    try {
      await runGuide(file, host, GUIDE_MS);
    } finally {
      await host.close();
    }
  });
}
