import { posix } from 'node:path';
import { type AgentFiles, FileError } from '@cloche/runtime/agent-files';
import type { LayerBlob } from '../layers/image-layer-repository.ts';
import type { LayerPlace } from '../layers/image-layers.ts';
import { diskFull } from './build-failure.ts';
import type { BuildOutput } from './build-output.ts';
import { layerPath } from './unpack-image.ts';

const MEBIBYTE = 1024 * 1024;

export interface LayerPlaceOptions {
  /** All layers of the image, in order. */
  readonly layers: readonly LayerBlob[];
  /** The files of the sandbox, as its root. */
  readonly files: AgentFiles;
  readonly download: LayerPlace['download'];
  readonly run: { readonly number: number; readonly output: BuildOutput; readonly signal: AbortSignal };
}

/** Reads and writes image layers in the sandbox of a build. The build's log names each layer that is written. */
export function layerPlace({ layers, files, download, run }: LayerPlaceOptions): LayerPlace {
  const { number, output, signal } = run;
  return {
    download,
    open: async (layer) => (await files.read(layerPath(layer), {}, signal)).body,
    write: async (layer, content) => {
      const path = layerPath(layer);
      let isBroken = false;
      content.once('error', () => {
        isBroken = true;
      });
      try {
        await files.makeDirectory(posix.dirname(path), signal);
        await files.write(path, { sizeBytes: layer.sizeBytes, open: () => content }, { mode: '0600' }, signal);
      } catch (error) {
        if (error instanceof FileError && error.kind === 'disk_full') throw diskFull(number);
        if (isBroken) return false;
        throw error;
      }
      await output.add({ step: number, stream: 'stdout', data: cachedLine(layer, layers) });
      return true;
    },
  };
}

/** Returns a line in the same form as the progress lines of `unpack-image.cjs`. */
function cachedLine(layer: LayerBlob, layers: readonly LayerBlob[]): string {
  const place = `${layers.indexOf(layer) + 1} of ${layers.length}`;
  const { digest, sizeBytes } = layer;
  return `Layer ${place} (${digest.slice(0, digest.indexOf(':') + 13)}): ${(sizeBytes / MEBIBYTE).toFixed(1)} MiB, cached\n`;
}
