/** Prints the digests of the traces of some seeds, for the test that compares those of two processes. */
import { prepareImage } from './prepare-image.ts';
import { simulate } from './simulation.ts';

const image = await prepareImage();
for (const seed of process.argv.slice(2).map(Number)) {
  process.stdout.write(`${seed} ${(await simulate({ seed, image })).digest}\n`);
}
