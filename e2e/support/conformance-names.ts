/**
 * The conformance package of the Model Context Protocol calls tools, resources and prompts of its own example server by
 * their names. Each stands here for one of the service, with real content of a sandbox, that does what the example does.
 */

/** A picture of one pixel. */
export const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
/** A sound without samples: the head of a file of WAVE alone. */
export const WAV = Buffer.concat([
  Buffer.from('RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0', 'latin1'),
  Buffer.from([0x44, 0xac, 0, 0, 0x88, 0x58, 1, 0, 2, 0, 16, 0]),
  Buffer.from('data\0\0\0\0', 'latin1'),
]);

const MIXED = `
import base64
class Picture:
    def _repr_png_(self): return base64.b64decode('${PNG}')
class Drawing:
    def _repr_svg_(self): return '<svg xmlns="http://www.w3.org/2000/svg"/>'
print('text')
display(Picture())
Drawing()`;
const SLOW = "import time\nfor step in range(5):\n    print('step', step, flush=True)\n    time.sleep(0.4)";

type Arguments = Readonly<Record<string, unknown>>;

/** Returns the tools, resources and prompts that stand for those of the example. @param sandboxId has `FILES` */
export function standIns(sandboxId: string) {
  const file = (path: string) => `cloche://sandbox/${sandboxId}/workspace/${path}`;
  const read = (path: string) => ({ name: 'file_read', arguments: { sandboxId, path } });
  const run = (code: string) => ({ name: 'run_code', arguments: { sandboxId, code } });
  const tools: Readonly<Record<string, { name: string; arguments: Arguments }>> = {
    test_simple_text: read('note.txt'),
    test_image_content: read('picture.png'),
    test_audio_content: read('sound.wav'),
    test_embedded_resource: read('data.bin'),
    test_multiple_content_types: run(MIXED),
    test_tool_with_logging: run("print('one')"),
    test_error_handling: read('missing.txt'),
    test_tool_with_progress: run(SLOW),
    test_reconnection: run("print('one')"),
  };
  const resources: Readonly<Record<string, string>> = {
    'test://static-text': file('note.txt'),
    'test://static-binary': file('data.bin'),
    'test://template/123/data': file('123/data'),
    'test://example-resource': file('note.txt'),
    'test://watched-resource': file('note.txt'),
  };
  const prompts: Readonly<Record<string, (given: Arguments) => { name: string; arguments: Arguments }>> = {
    test_simple_prompt: () => ({ name: 'tidy_up', arguments: {} }),
    test_prompt_with_arguments: ({ arg1, arg2 }) => ({
      name: 'solve_with_code',
      arguments: { task: `${arg1}, ${arg2}` },
    }),
    test_prompt_with_embedded_resource: ({ resourceUri }) => ({
      name: 'discuss_file',
      arguments: { file: resources[String(resourceUri)] ?? resourceUri },
    }),
    test_prompt_with_image: () => ({ name: 'discuss_file', arguments: { file: file('picture.png') } }),
  };
  return { tools, resources, prompts };
}

/** The files of the sandbox, by their paths. */
export const FILES: Readonly<Record<string, string | Buffer>> = {
  'note.txt': 'This is a note.',
  'picture.png': Buffer.from(PNG, 'base64'),
  'sound.wav': WAV,
  'data.bin': Buffer.from([0, 1, 2, 255]),
  '123/data': 'The data of 123.',
};

/** Returns a message of the package with the names of the service. */
export function withOwnNames({ tools, resources, prompts }: ReturnType<typeof standIns>, message: unknown): unknown {
  const { method, params, ...rest } = message as { method?: string; params?: Arguments };
  if (params === undefined) return message;
  const { name, uri, _meta } = params;
  const changed = (fields: Arguments | undefined) =>
    fields ? { ...rest, method, params: { _meta, ...fields } } : message;
  if (method === 'tools/call') return changed(tools[String(name)]);
  if (/^resources\/(read|subscribe|unsubscribe)$/.test(method ?? ''))
    return changed(uri !== undefined && String(uri) in resources ? { uri: resources[String(uri)] } : undefined);
  if (method === 'prompts/get') return changed(prompts[String(name)]?.((params.arguments ?? {}) as Arguments));
  if (method !== 'completion/complete') return message;
  const ref = { type: 'ref/prompt', name: 'solve_with_code' };
  return changed({ ref, argument: { name: 'language', value: 'py' } });
}
