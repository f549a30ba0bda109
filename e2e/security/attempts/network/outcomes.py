"""Makes the requested attempts, a few at a time, and prints the outcome of each."""


def attempt_word(act):
    try:
        return act()
    except Exception as error:
        return told(error)


with concurrent.futures.ThreadPoolExecutor(12) as pool:
    chosen = {name: act for name, act in attempts.items() if name in given.get("only", attempts)}
    print(json.dumps(dict(zip(chosen, pool.map(attempt_word, chosen.values()), strict=True))))
