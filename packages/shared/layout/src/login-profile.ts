/** `/etc/profile` of sandboxes. It replaces that of the distribution, which resets PATH and so discards other values. */
export const LOGIN_PROFILE = `# A login shell keeps the PATH that it is started with: the command's, the sandbox's or the template's.
for file in /etc/profile.d/*.sh; do
  if [ -r "$file" ]; then . "$file"; fi
done
unset file
if [ -n "\${PS1-}" ] && [ -n "\${BASH-}" ] && [ -f /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi
`;
