import type { Language, TemplateRecipe } from '@cloche/contract';
import type { Command } from 'commander';
import { leaf, perform } from '../command.ts';
import { watchForInterruption } from '../interruption.ts';
import { language, wholeNumber } from '../option-values.ts';
import type { Session } from '../session.ts';
import { BuildUpload } from '../templates/build-upload.ts';
import { readImageArchive } from '../templates/image-archive.ts';
import { buildTemplate, type NamedTemplate } from './build-template.ts';

interface ImportFlags extends NamedTemplate {
  language?: Language[];
  disk?: number;
}

export function addTemplateImportCommand(template: Command): void {
  const command = leaf(
    template,
    'import <archive>',
    'Make a template of an image: of `docker save`, or an oci-archive',
    [
      'docker save debian:bookworm -o debian.tar && cloche template import --slug debian debian.tar',
      'cloche template import --slug science --language python --disk 8192 science.tar.gz',
    ],
  )
    .requiredOption('--slug <slug>', 'name of the template, which is created if it does not exist')
    .option(
      '--language <language>',
      'language of code runs; repeatable (default: javascript and typescript). python needs IPython in the image',
      (text: string, before: Language[] = []) => [...before, language(text)],
    )
    .option('--disk <mib>', 'disk of the build and of its sandboxes, in MiB', wholeNumber)
    .option('--description <text>', 'what a new template contains');
  perform(command, importImage);
}

async function importImage(session: Session, flags: ImportFlags, archive: string): Promise<void> {
  using interruption = watchForInterruption();
  const { signal } = interruption;
  await readImageArchive(archive);
  const cloche = await session.connect();
  await using upload = new BuildUpload(cloche, session.terminal, signal);
  const recipe: TemplateRecipe = {
    from: { artifactId: await upload.storeFile(archive) },
    ...(flags.language && { languages: flags.language }),
    ...(flags.disk !== undefined && { resources: { diskMb: flags.disk } }),
  };
  await buildTemplate(session, cloche, flags, { recipe, titles: [`FROM ${archive}`] }, signal);
}
