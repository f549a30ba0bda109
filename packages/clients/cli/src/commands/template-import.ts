import type { Language, TemplateRecipe } from '@cloche/contract';
import type { Command } from 'commander';
import { UsageError } from '../cli-error.ts';
import { leaf, perform } from '../command.ts';
import { elsewhere, findHostCommands } from '../host-commands.ts';
import { watchForInterruption } from '../interruption.ts';
import { language, wholeNumber } from '../option-values.ts';
import type { Session } from '../session.ts';
import { BuildUpload } from '../templates/build-upload.ts';
import { readImageArchive } from '../templates/image-archive.ts';
import { isTemplateArchive } from '../templates/template-archive.ts';
import { buildTemplate, type NamedTemplate } from './build-template.ts';

interface ImportFlags extends Partial<NamedTemplate> {
  language?: Language[];
  disk?: number;
}

export function addTemplateImportCommand(template: Command): void {
  const command = leaf(
    template,
    'import <archive>',
    'Make a template of an image, of `docker save` or an oci-archive; or import curated templates (root)',
    [
      'docker save debian:bookworm -o debian.tar && cloche template import --slug debian debian.tar',
      'cloche template import --slug science --language python --disk 8192 science.tar.gz',
      'cloche template import cloche-templates.tar   # curated templates, into the cache of this machine',
    ],
  )
    .option('--slug <slug>', 'name of the template of an image, which is created if it does not exist')
    .option(
      '--language <language>',
      'language of code runs; repeatable (default: javascript and typescript). python older than 3.11 needs IPython in the image',
      (text: string, before: Language[] = []) => [...before, language(text)],
    )
    .option('--disk <mib>', 'disk of the build and of its sandboxes, in MiB (default: 2048)', wholeNumber)
    .option('--description <text>', 'what a new template contains');
  perform(command, async (session, flags: ImportFlags, archive: string) => {
    if (!isTemplateArchive(archive)) return importImage(session, flags, archive);
    const [flag] = Object.keys(flags).filter((name) => ['slug', 'language', 'disk', 'description'].includes(name));
    if (flag !== undefined)
      throw new UsageError(`${archive} has curated templates with names of their own; leave out --${flag}.`);
    const host = await findHostCommands();
    if (!host) throw elsewhere(`cloche template import ${archive}`);
    await host.importTemplateArchive(session, archive);
  });
}

async function importImage(session: Session, flags: ImportFlags, archive: string): Promise<void> {
  using interruption = watchForInterruption();
  const { signal } = interruption;
  await readImageArchive(archive);
  const { slug } = flags;
  if (slug === undefined)
    throw new UsageError(`The template of the image in ${archive} has no name; give one with --slug.`);
  const cloche = await session.connect();
  await using upload = new BuildUpload(cloche, session.terminal, signal);
  const recipe: TemplateRecipe = {
    from: { artifactId: await upload.storeFile(archive) },
    ...(flags.language && { languages: flags.language }),
    ...(flags.disk !== undefined && { resources: { diskMb: flags.disk } }),
  };
  await buildTemplate(session, cloche, { ...flags, slug }, { recipe, titles: [`FROM ${archive}`] }, signal);
}
