import type { ImageLayers } from '../src/features/templates/layers/image-layers.ts';

/** Builds that share no layers: each downloads its own. */
export const NO_SHARED_LAYERS: Pick<ImageLayers, 'bring' | 'sweep'> = {
  bring: (layers, place) => place.download(layers),
  sweep: async () => 0,
};
