import { type Artifact, LIMITS } from '@cloche/contract';
import { SandboxArtifacts } from '@cloche/sdk';
import { z } from 'zod';
import { id, path, usedSandboxId } from './schemas.ts';
import { type Content, describeTool, type ToolCall } from './tool.ts';

/** Most artifacts that one call lists. */
const LISTED = 100;

const artifact = z.object({
  id: z.string(),
  sandboxId: z.string(),
  name: z.string(),
  contentType: z.string(),
  sizeBytes: z.int(),
  createdAt: z.string(),
});

/** The tools that keep files beyond the end of their sandbox. */
export const artifactTools = [
  describeTool(
    'artifact_export',
    {
      title: 'Keep a file',
      description:
        'Stores a file of a sandbox, or a directory as a tar.gz, as an artifact, which outlives the sandbox. Returns a link ' +
        'that downloads it for an hour.',
      input: z.object({
        sandboxId: usedSandboxId,
        path: path().describe('Absolute path, or relative to /workspace.'),
        name: z
          .string()
          .min(1)
          .max(LIMITS.artifactNameLength)
          .optional()
          .describe('File name of the download. Default: the last part of the path.'),
      }),
      output: z.object({ artifact, url: z.string() }),
    },
    async ({ sandboxId, path, name }, call) => {
      const artifacts = new SandboxArtifacts(call.cloche, await call.sandbox.id(sandboxId));
      return linked(await artifacts.export(path, { name, signal: call.signal }), call);
    },
  ),
  describeTool(
    'artifact_list',
    {
      title: 'List artifacts',
      description: `Lists the newest artifacts, at most ${LISTED}.`,
      input: z.object({ sandboxId: id().optional().describe('Only artifacts of this sandbox.') }),
      output: z.object({ artifacts: z.array(artifact) }),
      readOnly: true,
    },
    async ({ sandboxId }, { cloche, signal }) => {
      const query = { limit: LISTED, ...(sandboxId === undefined ? {} : { sandboxId }) };
      const { data } = await cloche.call('listArtifacts', { query, signal });
      return { output: { artifacts: data.map(infoOf) } };
    },
  ),
  describeTool(
    'artifact_get',
    {
      title: 'Get an artifact',
      description: 'Returns an artifact, with a link that downloads it for an hour.',
      input: z.object({ artifactId: id().describe('Id of the artifact.') }),
      output: z.object({ artifact, url: z.string() }),
      readOnly: true,
    },
    async ({ artifactId }, call) => linked(await call.cloche.artifacts.get(artifactId, { signal: call.signal }), call),
  ),
];

async function linked(found: Artifact, { cloche, signal }: ToolCall) {
  const { url } = await cloche.artifacts.downloadUrl(found.id, { signal });
  const { name, contentType: mimeType, sizeBytes: size } = found;
  const content: Content = [
    { type: 'text', text: JSON.stringify(infoOf(found)) },
    { type: 'resource_link', uri: url, name, mimeType, size },
  ];
  return { output: { artifact: infoOf(found), url }, content };
}

function infoOf({ id, sandboxId, name, contentType, sizeBytes, createdAt }: Artifact) {
  return { id, sandboxId, name, contentType, sizeBytes, createdAt };
}
