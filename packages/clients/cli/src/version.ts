import manifest from '../../../../package.json' with { type: 'json' };

/** Version of the release that this command line belongs to. */
export const VERSION = manifest.version;
