import { isUtf8 } from 'node:buffer';
import { Readable } from 'node:stream';
import { AgentError } from '../base/agent-error.ts';
import { shown } from '../files/file-error.ts';
import type { FileSystem } from '../files/file-system.ts';
import { contentOf, type PackedFile } from './packed-file.ts';

/** Returns a zip archive of `files`. Throws `conflict` for a name that is not UTF-8, which a zip cannot hold. */
export async function zipOf(
  files: AsyncIterable<PackedFile> | Iterable<PackedFile>,
  system: FileSystem,
): Promise<Readable> {
  // Loaded on first use, to save memory in an idle sandbox.
  const { ZipFile } = await import('yazl');
  const zip = new ZipFile();
  // Declared as NodeJS.ReadableStream, but it is a Readable.
  const output = zip.outputStream as Readable;
  // The reader of the stream gets the error through its own listener. This one catches errors after that reader has
  // left.
  output.on('error', () => undefined);
  const fill = async () => {
    for await (const file of files) {
      const { path, stat, link } = file;
      const options = { mtime: new Date(Number(stat.mtimeMs)), mode: Number(stat.mode) & 0xffff };
      const name = nameOf(file);
      if (stat.isDirectory()) zip.addEmptyDirectory(name, options);
      else if (link !== undefined) zip.addBuffer(link, name, options);
      else if (stat.isFile()) {
        const content = Readable.from(contentOf(path, Number(stat.size), system), { objectMode: false });
        zip.addReadStream(content, name, { ...options, size: Number(stat.size) });
        // One file at a time: the next one is opened after this one has been read.
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
