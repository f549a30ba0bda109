const PROFILE = `# A login shell keeps the PATH that it is started with: the command's, the sandbox's or the template's.
for file in /etc/profile.d/*.sh; do
  if [ -r "$file" ]; then . "$file"; fi
done
unset file
if [ -n "\${PS1-}" ] && [ -n "\${BASH-}" ] && [ -f /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi
`;

const USER_PROFILE = `# ~/.local/bin is on the PATH already.
if [ -n "\${BASH_VERSION-}" ] && [ -f ~/.bashrc ]; then . ~/.bashrc; fi
`;

/** Files of login shells. They replace Debian's, which reset PATH and so discard the client's value. */
export const LOGIN_FILES: Readonly<Record<string, string>> = {
  'etc/profile': PROFILE,
  'home/user/.profile': USER_PROFILE,
};
