export { ArchiveFile } from './read/archive-file.ts';
export { type ImageConfig, ownPlatform } from './read/image-config.ts';
export { ImageError } from './read/image-error.ts';
export { type Image, type ImageLayer, readImage } from './read/read-image.ts';
