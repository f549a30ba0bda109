import { LOGIN_PROFILE } from '@cloche/layout';

const USER_PROFILE = `# ~/.local/bin is on the PATH already.
if [ -n "\${BASH_VERSION-}" ] && [ -f ~/.bashrc ]; then . ~/.bashrc; fi
`;

/** Files of login shells. They replace Debian's, which reset PATH and so discard the client's value. */
export const LOGIN_FILES: Readonly<Record<string, string>> = {
  'etc/profile': LOGIN_PROFILE,
  'home/user/.profile': USER_PROFILE,
};
