/**
 * `node save-image.ts save NAME -o FILE`: stands for `docker` in guides, because tests have no registry. Writes an
 * image of busybox, with a variable, a directory and a user.
 */
import { writeSaved } from '../../packages/shared/image-archive/testing/make-image.ts';
import { busyboxRoot } from './image-root.ts';

const [verb, , option, file] = process.argv.slice(2);
if (verb !== 'save' || option !== '-o' || file === undefined)
  throw new Error('Only `docker save NAME -o FILE` is here.');
const config = { Env: ['PATH=/usr/local/bin:/usr/bin:/bin', 'IMAGE=busybox'], WorkingDir: '/srv', User: '1000' };
writeSaved(file, { layers: [busyboxRoot()], config });
