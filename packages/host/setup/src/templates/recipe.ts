import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';

/** Folder of the recipes that are part of Cloche. */
export const RECIPES_FOLDER = fileURLToPath(new URL('../../../../../templates', import.meta.url));

/** Incremented when the builder's output for the same recipe changes, so that templates are rebuilt. */
const BUILDER_REVISION = 5;

const SetupCommand = Type.Object(
  {
    /** `root`, or `user`: the account that kernels run as. */
    as: Type.Union([Type.Literal('root'), Type.Literal('user')]),
    run: Type.String({ minLength: 1 }),
  },
  { additionalProperties: false },
);

/**
 * Recipe of a template. It names packages but not their sources: the apt, pip and npm configuration of the building
 * machine decides those.
 */
const RecipeFile = Type.Object(
  {
    slug: Type.String({ pattern: '^[a-z0-9][a-z0-9-]{0,62}$' }),
    description: Type.String({ minLength: 1 }),
    languages: Type.Array(Type.String(), { minItems: 1 }),
    /** `debian:` and the name of a release. */
    from: Type.String({ pattern: '^debian:[a-z]+$' }),
    packages: Type.Object(
      {
        apt: Type.Array(Type.String({ pattern: '^[a-z0-9][a-z0-9+.-]+$' })),
        pip: Type.Array(Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.+!]+$' })),
        /** `node` becomes `/usr/local/bin/node`; the others are installed globally. */
        npm: Type.Array(Type.String({ pattern: '^(@[a-z0-9._-]+/)?[a-z0-9._-]+@[0-9A-Za-z.+-]+$' })),
      },
      { additionalProperties: false },
    ),
    /** Environment variables of every process in a sandbox of this template. */
    env: Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' }), Type.String()),
    /** Shell commands that run in the finished root file system, in order. */
    setup: Type.Array(SetupCommand),
  },
  { additionalProperties: false },
);

export type Recipe = Static<typeof RecipeFile> & {
  /** Contents of the lock files: every installed package, direct or not, with its hash. */
  locks: { pip?: string; npm?: string };
};

/** Names of the lock files beside a `template.json`. */
export const LOCK_FILES = { pip: 'requirements.txt', npm: 'package-lock.json' } as const;

/**
 * Reads a recipe with its lock files.
 * @throws Error that names the invalid field or the missing lock file.
 */
export async function readRecipe(folder: string): Promise<Recipe> {
  const recipe = await readUnlockedRecipe(folder);
  const locks: Recipe['locks'] = {};
  for (const source of ['pip', 'npm'] as const) {
    if (recipe.packages[source].length === 0) continue;
    locks[source] = await readFile(join(folder, LOCK_FILES[source]), 'utf8').catch(() => {
      throw new Error(`${join(folder, LOCK_FILES[source])} is missing; create it with \`npm run lock-templates\`.`);
    });
  }
  return { ...recipe, locks };
}

/** Reads the recipe without its lock files, to create them. */
export async function readUnlockedRecipe(folder: string): Promise<Recipe> {
  const file = join(folder, 'template.json');
  const parsed: unknown = JSON.parse(await readFile(file, 'utf8'));
  const problem = Value.Errors(RecipeFile, parsed)[0];
  if (problem) throw new Error(`${file}: ${problem.instancePath || '/'} ${problem.message}`);
  return { ...Value.Parse(RecipeFile, parsed), locks: {} };
}

/** Reads the recipes in the subfolders of a folder, by slug. */
export async function readRecipes(templatesFolder: string): Promise<Recipe[]> {
  const entries = await readdir(templatesFolder, { withFileTypes: true });
  const folders = entries.filter((entry) => entry.isDirectory()).map((entry) => join(templatesFolder, entry.name));
  return Promise.all(folders.sort().map(readRecipe));
}

/**
 * Returns a SHA-256 that changes exactly when a build could give another result: formatting and order of keys do not
 * count.
 */
export function recipeDigest(recipe: Recipe, architecture: string = process.arch): string {
  return createHash('sha256')
    .update(canonicalJson({ revision: BUILDER_REVISION, architecture, recipe }))
    .digest('hex');
}

/** Returns JSON with sorted keys. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    inner !== null && typeof inner === 'object' && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
