import { isUtf8 } from 'node:buffer';
import { Readable } from 'node:stream';
import { AgentError } from '../base/agent-error.ts';
import { shown } from '../files/file-fault.ts';
import type { FileSystem } from '../files/file-system.ts';
import { contentOf, type PackedFile } from './packed-file.ts';

/** A zip archive of `files`. Its names are UTF-8, so one that is not fails it. */
export async function zipOf(
  files: AsyncIterable<PackedFile> | Iterable<PackedFile>,
  system: FileSystem,
): Promise<Readable> {
  // Loaded by those who need it: an idle sandbox does not pay for it.
  const { ZipFile } = await import('yazl');
  const zip = new ZipFile();
  // The type promises less than it is.
  const output = zip.outputStream as Readable;
  // Whoever reads it is told; a failure after that is nobody's.
  output.on('error', () => undefined);
  const fill = async () => {
    for await (const file of files) {
      const { path, stat } = file;
      const options = { mtime: new Date(Number(stat.mtimeMs)), mode: Number(stat.mode) & 0xffff };
      const name = nameOf(file);
      if (stat.isDirectory()) zip.addEmptyDirectory(name, options);
      else if (stat.isSymbolicLink()) zip.addBuffer(system.readlink(path), name, options);
      else if (stat.isFile()) {
        const content = Readable.from(contentOf(path, Number(stat.size), system), { objectMode: false });
        zip.addReadStream(content, name, { ...options, size: Number(stat.size) });
        // One at a time: the next is looked at when this one is on its way.
        await new Promise<void>((resolve, reject) => {
          content.once('end', resolve).once('error', reject);
          output.once('close', resolve);
        });
        if (output.destroyed) return;
      }
    }
    zip.end();
  };
  fill().catch((error: unknown) => output.destroy(error instanceof Error ? error : new Error(String(error))));
  return output;
}

function nameOf({ name, path }: PackedFile): string {
  const bytes = Buffer.from(name, 'latin1');
  if (isUtf8(bytes)) return bytes.toString();
  throw new AgentError('conflict', `${shown(path)} has a name that a zip archive cannot hold; request a tar.`);
}
