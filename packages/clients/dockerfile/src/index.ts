export { BuildContext, type CopiedEntry } from './build-context.ts';
export { DockerfileError } from './dockerfile-error.ts';
export { type DockerfileRecipe, type MakeRecipeOptions, makeRecipe } from './make-recipe.ts';
export { packEntries } from './pack-entries.ts';
export type { CopyStep, DockerfilePlan, PlanStep, RunStep } from './plan.ts';
export { type ReadOptions, readDockerfile, readFrom } from './read-dockerfile.ts';
