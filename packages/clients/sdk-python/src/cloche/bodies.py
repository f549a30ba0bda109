"""Types of the dictionaries that requests take."""

from cloche._generated.bodies import *  # noqa: F403
