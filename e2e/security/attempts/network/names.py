"""Connects with programs that each have a trust store of their own, and to names of every form."""

# Programs, each with a trust store of its own.
for scheme in ["http", "https"]:
    for kind, host in [("an allowed", "allowed.test"), ("a denied", "denied.test")]:
        url = f"{scheme}://{host}/{tag}"

        @attempt(f"{scheme} to {kind} host by urllib")
        def _(url=url):
            return fetch(url)

        @attempt(f"{scheme} to {kind} host by requests")
        def _(url=url):
            import requests

            return word(requests.get(url, timeout=SECONDS).text)

        @attempt(f"{scheme} to {kind} host by curl")
        def _(url=url):
            return word(command("curl", "-sS", "-m", str(SECONDS), url))

        @attempt(f"{scheme} to {kind} host by fetch of Node")
        def _(url=url):
            script = f"fetch('{url}').then((r) => r.text()).then(console.log, (e) => console.log(e.cause?.code))"
            return word(command("node", "-e", script))


# Names.
for name in ["a.wild.test", "deep.a.wild.test", "wild.test", "a.denied.test"]:

    @attempt(f"http to {name}")
    def _(name=name):
        return fetch(f"http://{name}/")


# Programs that normalize names as browsers do read the last two as the denied name.
for name in [
    "ALLOWED.TEST",
    "DENIED.TEST",
    "allowed.test.",
    "denied.test.",
    "Denied.test.:80",
    "denied\u3002test",
    "\uff44enied.test",
]:

    @attempt(f"Host {name}")
    def _(name=name):
        return word(exchange(get(name), address if "allowed" in name.lower() else other))


@attempt("another port")
def _():
    return fetch("http://allowed.test:8000/")


@attempt("a redirect to a denied host")
def _():
    return fetch("http://allowed.test/?to=http://denied.test/")


@attempt("a name of a private address")
def _():
    return fetch("http://private.test/")


@attempt("a name that changes to a private address")
def _():
    words = {attempt_word(lambda: fetch("http://changing.test/")) for _ in range(6)}
    return "never private" if "reached a private address" not in words else "reached a private address"


@attempt("a server without a trusted certificate")
def _():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return word(urllib.request.urlopen("https://untrusted.test:8443/", timeout=SECONDS, context=context).read())
