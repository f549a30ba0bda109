import { join } from 'node:path';
import { Cloche } from '@cloche/sdk';
import { packDirectory } from '@cloche/sdk/node';
import { CACHE_DIR } from '../../packages/guest/agent/testing/test-cache.ts';
import { ensurePythonTools } from '../../scripts/python-tools.ts';

/** JupyterLab and the packages of widgets. */
export const LAB_REQUIREMENTS = join(import.meta.dirname, '../../requirements-jupyterlab.txt');

/** Copies the packages of widgets into a sandbox, as pip would install them: sandboxes of tests reach no registry. */
export async function installWidgets(
  { url, apiKey }: { url: string; apiKey: string },
  sandboxId: string,
): Promise<void> {
  const folder = ensurePythonTools(CACHE_DIR, LAB_REQUIREMENTS);
  const sandbox = await new Cloche({ url, apiKey }).sandboxes.get(sandboxId);
  for (const name of ['comm', 'ipywidgets']) {
    await using archive = await packDirectory(join(folder, name));
    await sandbox.files.unpack(`/workspace/${name}`, archive.bytes);
  }
}
