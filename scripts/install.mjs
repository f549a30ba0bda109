// `npm run dependencies`
import { ensureDependencies } from './dependencies.mjs';

ensureDependencies('npm run dependencies', { needsRoot: false });
