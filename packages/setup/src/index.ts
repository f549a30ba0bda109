export { type ClientConfig, clientConfigFile, readClientConfig, writeClientConfig } from './client-config.ts';
export { requestFirstKey } from './first-key.ts';
export { installAptPackages, withoutOwnService } from './host/apt-packages.ts';
export { type PreparedHost, type PrepareOptions, prepareHost } from './host/prepare-host.ts';
export { type PartName, PROGRAMS, type ProcessName, type Programs } from './installation/parts.ts';
export { type Installation, type InstallationOptions, startInstallation } from './installation/start-installation.ts';
export { createProgress, describeFailure, type Progress, SetupError, silentProgress } from './progress.ts';
export { ensureTemplate, findTemplate, type TemplateVersion } from './templates/build-template.ts';
export { type Recipe, readRecipes, recipeDigest } from './templates/recipe.ts';
