import { join } from 'node:path';
import { describeArtifactStore } from '../../../testing/artifact-store-suite.ts';
import { LocalStore } from './local-store.ts';

describeArtifactStore('in a folder', async (folder) => new LocalStore(join(folder, 'contents')));
