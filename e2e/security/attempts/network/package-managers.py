"""Connects with package managers, which are loaded for seconds and have trust stores of their own."""

for kind, host in [("an allowed", "allowed.test"), ("a denied", "denied.test")]:

    @attempt(f"https to {kind} host by pip")
    def _(host=host):
        return command(
            "pip",
            "download",
            "--no-deps",
            "-d",
            "/tmp",
            "--retries",
            "0",
            "-i",
            f"https://{host}/{tag}-pip/",
            "nothing",
        )

    @attempt(f"https to {kind} host by git")
    def _(host=host):
        # Unlike pip and npm, git does not try again when a busy machine takes too long for a handshake.
        for _ in range(3):
            printed = command("git", "ls-remote", f"https://{host}/{tag}-git")
            if host != "allowed.test" or "handshake" not in printed:
                break
        return printed

    @attempt(f"https to {kind} host by npm")
    def _(host=host):
        return command("npm", "view", "nothing", f"--registry=https://{host}/{tag}-npm/", "--fetch-retries=0")
