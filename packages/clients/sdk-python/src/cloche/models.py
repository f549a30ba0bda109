"""What the service responds with."""

from cloche._generated.models import *  # noqa: F403
