import { join } from 'node:path';
import { describeArtifactStore } from './artifact-store-suite.fixture.ts';
import { LocalStore } from './local-store.ts';

describeArtifactStore('in a folder', async (folder) => new LocalStore(join(folder, 'contents')));
