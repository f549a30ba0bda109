import { ClocheError } from '../cloche-error.ts';
import type { PackDirectory } from './archive-source.ts';

/** Takes the place of packing where there are no directories, such as in browsers. */
export const packDirectory: PackDirectory = async () => {
  throw new ClocheError('invalid_options', 'This platform cannot pack a directory; pass `archive`.');
};
