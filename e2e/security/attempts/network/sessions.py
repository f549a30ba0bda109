"""Opens a second TLS connection that resumes the session of the first, as browsers and HTTP clients do."""

NODE_AGENT = """
const https = require("https");
const maxVersion = process.argv[1];
const agent = new https.Agent({ maxVersion, maxCachedSessions: 10 });
const get = () => new Promise((resolve, reject) => https.get("https://allowed.test/", { agent }, (answer) => {
  let body = "";
  answer.on("data", (chunk) => { body += chunk; }).on("end", () => resolve(body));
}).on("error", reject));
get().then(get).then(console.log);
"""

for version in [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]:

    @attempt(f"a resumed session of {version.name} by Python")
    def _(version=version):
        context = ssl.create_default_context()
        context.minimum_version = context.maximum_version = version
        session, answer = None, b""
        for _ in range(2):
            with socket.create_connection((address, 443), SECONDS) as plain:
                with context.wrap_socket(plain, server_hostname="allowed.test", session=session) as stream:
                    stream.settimeout(SECONDS)
                    stream.sendall(get("allowed.test", "/", "Connection: close\n").replace("\n", "\r\n").encode())
                    answer = b""
                    while chunk := stream.recv(65536):
                        answer += chunk
                    session = stream.session
        return word(answer)

    @attempt(f"a resumed session of {version.name} by Node's agent")
    def _(version=version):
        return word(command("node", "-e", NODE_AGENT, version.name.replace("_", ".")))

    @attempt(f"a resumed session of {version.name} by curl")
    def _(version=version):
        number = version.name[-3:].replace("_", ".")
        # Two connections of one process, which share sessions.
        close = ["-H", "Connection: close", "--http1.1", "https://allowed.test/"]
        return word(command("curl", "-s", "--tls-max", number, *close, "-o", "/dev/null", "--next", "-s", *close))
