/** Groups of operations, in the order of the documentation. */
export const TAGS = {
  Sandboxes:
    'A sandbox is an isolated machine that runs untrusted code. It lives until its lifetime ends or a client destroys it.',
  'Code contexts':
    'A context keeps variables, functions and imports from one code run to the next, as a notebook does. Every language has ' +
    'a default context; create others to keep work apart.',
  'Code runs': 'A code run executes Python, JavaScript or TypeScript in a context and returns its output and results.',
  Commands: 'A command runs a program or a shell line in a sandbox. Terminals are interactive shells over a WebSocket.',
  Files: 'Files and directories of a sandbox: read, write, list, watch, and transfer whole trees as archives.',
  Artifacts: 'An artifact is a copy of a file, a directory or an output. It outlives its sandbox.',
  Previews: 'A preview serves a port of a sandbox at a URL of its own.',
  'API keys':
    'An API key identifies its caller and limits what requests may do: by scopes, by projects and until a time.',
  Templates:
    'A template is an image that sandboxes are created from. Its versions are immutable. Every organization has the curated ' +
    'templates, and can build others from recipes.',
  Projects:
    'A project groups the sandboxes, artifacts and previews of an organization. An API key can be bound to projects. Every ' +
    'organization has a default project.',
  Quotas:
    'A quota limits what an organization or a project uses at a time or in a minute. By default there is no limit but what ' +
    'the host holds.',
  Usage: 'What sandboxes used, by hour or day and project, and for each sandbox. Counted every 10 seconds.',
  Secrets:
    'A secret is a value that sandboxes use without having it: the egress gateway puts it in place of a placeholder in ' +
    'requests to the hosts of the secret.',
  Events:
    'An event says that a sandbox, an artifact or another resource was created, has changed or has ended. The events of an ' +
    'organization are numbered; each is written together with its change.',
  Webhooks:
    'A webhook is a URL of yours that receives events as signed messages, each at least once and in their order.',
  'Workspace runs':
    'A workspace run is a job: the service unpacks an archive in a new sandbox, runs one command there, keeps its output ' +
    'and artifacts, and destroys the sandbox.',
  Audit:
    'The audit log says which key changed what, and which requests were refused. The hash of each event covers the one before.',
} as const;
export type Tag = keyof typeof TAGS;
