"""The package itself: what importing it costs, and its errors."""

import os
import subprocess
import sys
import unittest

import cloche
from cloche._generated.errors import ERRORS

_MAX_BYTES = 20 * 1024 * 1024
# Where it was chosen, a program that imports httpx took 63 ms of processor time: 150 ms is 2.4 of them.
_MAX_TIMES_HTTPX = 2.4


def _run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    ).stdout


class Import(unittest.TestCase):
    def test_takes_at_most_20_megabytes(self):
        memory = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
        bare, with_client = int(_run(memory)), int(_run(f"from cloche import Cloche, Sandbox; {memory}"))
        self.assertLess(with_client - bare, _MAX_BYTES)

    def test_takes_at_most_a_few_times_the_processor_time_of_httpx(self):
        spent = "import time; print(time.process_time())"
        # In turns, and the least of each, because other programs of the machine can only add to it.
        turns = [
            (float(_run(f"import httpx; {spent}")), float(_run(f"from cloche import Cloche, Sandbox; {spent}")))
            for _ in range(7)
        ]
        httpx, with_client = (min(times) for times in zip(*turns, strict=True))
        self.assertLess(with_client / httpx, _MAX_TIMES_HTTPX)

    def test_loads_no_part_that_a_program_may_not_need(self):
        loaded = _run("import cloche; cloche.Cloche; import sys; print(*sys.modules)").split()
        heavy = {"cloche._async", "anyio", "websockets", "pathspec", "tarfile", "dataclasses_json", "pydantic"}
        self.assertEqual(heavy & set(loaded), set())

    def test_offers_every_name_that_it_lists(self):
        for name in cloche.__all__:
            self.assertIsNotNone(getattr(cloche, name))


class Errors(unittest.TestCase):
    def test_have_a_class_for_each_code_which_the_package_offers(self):
        for kind in ERRORS.values():
            self.assertIs(getattr(cloche, kind.__name__), kind)

    def test_belong_to_a_family(self):
        families = (cloche.RequestError, cloche.AccessError, cloche.StateError, cloche.LimitError, cloche.ServiceError)
        for kind in ERRORS.values():
            self.assertEqual(sum(issubclass(kind, family) for family in families), 1, kind)


class Options(unittest.TestCase):
    def test_that_cannot_work_are_refused_without_showing_the_key(self):
        with self.assertRaises(cloche.InvalidOptionsError) as caught:
            cloche.Cloche(api_key="clk secret")
        self.assertNotIn("secret", str(caught.exception))
        for url in ("ftp://a", "http://", "a", "http://a:99999"):
            with self.assertRaises(cloche.InvalidOptionsError):
                cloche.Cloche(api_key="k", url=url)
        with self.assertRaises(cloche.InvalidOptionsError), cloche.Cloche(api_key="k") as client:
            client.sandboxes.create(idempotency_key="a\nb")

    def test_without_a_key_say_where_to_put_one(self):
        code = "import cloche\ntry: cloche.Cloche()\nexcept cloche.MissingApiKeyError as error: print(error)"
        self.assertIn("set CLOCHE_API_KEY", _run(f"import os; os.environ.pop('CLOCHE_API_KEY', None)\n{code}"))
